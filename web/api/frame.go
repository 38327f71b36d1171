package api

import (
	"encoding/csv"
	"encoding/json"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"headroom/metric"
	"headroom/store"
)

// writeFrame writes columns: one list of times, one list of values for each
// line. Numbers are the bulk of it, so they are not boxed first.
func writeFrame(w http.ResponseWriter, f *store.Frame) error {
	b := make([]byte, 0, 256+len(f.At)*14+len(f.Lines)*(64+len(f.At)*8))
	b = append(b, `{"from":`...)
	b = appendQuoted(b, f.From.UTC().Format(time.RFC3339Nano))
	b = append(b, `,"to":`...)
	b = appendQuoted(b, f.To.UTC().Format(time.RFC3339Nano))
	b = append(b, `,"step":`...)
	b = strconv.AppendFloat(b, f.Step.Seconds(), 'g', -1, 64)
	b = append(b, `,"resolution":`...)
	b = appendQuoted(b, f.Resolution)
	b = append(b, `,"warnings":[`...)
	for i, t := range f.Warnings {
		b = comma(b, i)
		b = appendQuoted(b, t)
	}
	b = append(b, `],"at":[`...)
	for i, at := range f.At {
		b = comma(b, i)
		b = strconv.AppendInt(b, at, 10)
	}
	b = append(b, `],"lines":[`...)
	for i := range f.Lines {
		b = comma(b, i)
		b = append(b, `{"name":`...)
		b = appendQuoted(b, f.Lines[i].Name)
		b = append(b, `,"labels":`...)
		b = appendLabels(b, f.Lines[i].Labels)
		b = append(b, `,"values":[`...)
		for k, v := range f.Lines[i].Values {
			b = comma(b, k)
			b = appendNumber(b, v)
		}
		b = append(b, ']', '}')
	}
	b = append(b, "]}\n"...)
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(b) // that the client has gone is nobody's fault
	return nil
}

func comma(b []byte, i int) []byte {
	if i > 0 {
		return append(b, ',')
	}
	return b
}

// appendNumber writes a value; what JSON has no number for is null.
func appendNumber(b []byte, v float64) []byte {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return append(b, "null"...)
	}
	return strconv.AppendFloat(b, v, 'g', -1, 64)
}

func appendLabels(b []byte, ls []metric.Label) []byte {
	b = append(b, '{')
	for i, l := range ls {
		b = comma(b, i)
		b = appendQuoted(b, l.Name)
		b = append(b, ':')
		b = appendQuoted(b, l.Value)
	}
	return append(b, '}')
}

func appendQuoted(b []byte, s string) []byte {
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			q, _ := json.Marshal(s) // a string cannot fail
			return append(b, q...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

func wantsCSV(r *http.Request) bool {
	first, _, _ := strings.Cut(r.Header.Get("Accept"), ",")
	kind, _, _ := strings.Cut(first, ";")
	return strings.TrimSpace(kind) == "text/csv"
}

// writeCSV writes a row for each time and a column for each line; a bucket
// without data is an empty cell. Warnings go into a header of the answer.
func writeCSV(w http.ResponseWriter, f *store.Frame) error {
	w.Header().Set("Content-Type", "text/csv; charset=utf-8")
	for _, t := range f.Warnings {
		w.Header().Add("X-Headroom-Warning", oneLine(t))
	}
	c := csv.NewWriter(w)
	row := []string{"at"}
	for _, l := range f.Lines {
		row = append(row, lineText(l))
	}
	_ = c.Write(row) // errors stay with the writer, and are the client's
	for i, at := range f.At {
		row = append(row[:0], time.UnixMilli(at).UTC().Format("2006-01-02T15:04:05.000Z07:00"))
		for _, l := range f.Lines {
			cell := ""
			if v := l.Values[i]; !math.IsNaN(v) {
				cell = strconv.FormatFloat(v, 'g', -1, 64)
			}
			row = append(row, cell)
		}
		_ = c.Write(row)
	}
	c.Flush()
	return nil
}

// lineText names a line as a series is written. It begins with a letter or
// brace, so that no spreadsheet takes it for a formula.
func lineText(l store.Line) string {
	if s, err := metric.NewSeries(l.Name, l.Labels); err == nil {
		return s.Key()
	}
	var parts []string
	for _, p := range l.Labels {
		parts = append(parts, p.Name+"="+strconv.Quote(p.Value))
	}
	return l.Name + "{" + strings.Join(parts, ",") + "}"
}

func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return ' '
		}
		return r
	}, s)
}
