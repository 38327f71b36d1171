package api

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"

	"headroom/metric"
)

// ingestLines takes JSON lines: {"name":…,"labels":{…},"at":…,"value":…} or
// {"name":…,"labels":{…},"points":[[at,value],…]}. What is good is stored even
// if other lines are not.
func (a *API) ingestLines(w http.ResponseWriter, r *http.Request) error {
	return a.receive(w, r, (*intake).lines)
}

var blocks = sync.Pool{New: func() any { b := make([]byte, 256<<10); return &b }}

// lines reads the body block by block and takes each line. A line that is too
// long ends it: nobody knows where the next one would begin.
func (in *intake) lines(body io.Reader) error {
	held := blocks.Get().(*[]byte)
	defer blocks.Put(held)
	buf, have, number := *held, 0, 0
	for {
		n, err := body.Read(buf[have:])
		have += n
		rest := buf[:have]
		for {
			i := bytes.IndexByte(rest, '\n')
			if i < 0 {
				break
			}
			number++
			in.line(number, rest[:i])
			rest = rest[i+1:]
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return bodyError(err)
		}
		if in.b.puts.failed() {
			return nil // done tells why
		}
		if err != nil {
			in.line(number+1, rest)
			return nil
		}
		have = copy(buf, rest)
		if have == len(buf) {
			if have >= in.Limits.LineBytes {
				return refuse(http.StatusRequestEntityTooLarge, "one JSON object a line; cut long points lists", "line %d has more than %d bytes", number+1, in.Limits.LineBytes)
			}
			buf = append(buf, make([]byte, len(buf))...) // rare, and not kept
		}
	}
}

// fields is what a line says, still as it was written.
type fields struct {
	name, labels, points []byte
	at                   int64
	value                float64
	has                  byte // bits below
	why                  string
}

const (
	hasName = 1 << iota
	hasLabels
	hasAt
	hasValue
	hasPoints
)

func (in *intake) line(number int, line []byte) {
	if number == 1 {
		line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
	}
	var f fields
	s := scan{b: line}
	if s.peek() == 0 && s.i == len(line) {
		return // an empty line
	}
	if why := f.read(&s); why != "" {
		in.reject(number, -1, why)
		return
	}
	series, why := in.find(&f)
	if why == "" && f.has&hasPoints == 0 {
		why = f.why
		if why == "" {
			if f.has&hasAt == 0 {
				f.at = in.now.UnixMilli()
			}
			why = in.point(series, f.at, f.value)
		}
	}
	if why != "" {
		in.reject(number, -1, why)
		return
	}
	if f.has&hasPoints != 0 {
		in.pairs(number, series, f.points)
	}
}

// read splits a line into its fields.
func (f *fields) read(s *scan) (why string) {
	if !s.take('{') {
		return "not a JSON object"
	}
	for !s.take('}') {
		if f.has != 0 && !s.take(',') {
			return "not JSON: want , or } after a field"
		}
		key := s.str()
		if key == nil || !s.take(':') {
			return "not JSON: want a field's name in quotes and a colon"
		}
		if why := f.field(s, key); why != "" {
			return why
		}
	}
	if s.blanks(); s.i < len(s.b) {
		return "text after the JSON object"
	}
	switch {
	case f.has&hasName == 0:
		return "name is missing"
	case f.has&(hasValue|hasPoints) == 0:
		return "value is missing"
	case f.has&hasPoints != 0 && f.has&(hasValue|hasAt) != 0:
		return "points and value in one line"
	}
	return ""
}

func (f *fields) field(s *scan, key []byte) (why string) {
	var bit byte
	ok := true
	switch string(key) {
	case `"name"`:
		bit = hasName
		f.name = s.str()
		ok = f.name != nil
	case `"labels"`:
		bit = hasLabels
		f.labels = s.flat()
		ok = f.labels != nil
	case `"at"`:
		bit = hasAt
		f.at, why = s.at()
	case `"value"`:
		bit = hasValue
		f.value, f.why = s.value()
		if f.why != "" && s.peek() == '"' {
			ok = s.str() != nil
		}
	case `"points"`:
		bit = hasPoints
		f.points = s.array()
		ok = f.points != nil
	default:
		return fmt.Sprintf("unknown field %.60s; there are name, labels, at, value, points", key)
	}
	switch {
	case why != "":
		return why
	case !ok:
		return fmt.Sprintf("field %s is not as it must be", key)
	case f.has&bit != 0:
		return fmt.Sprintf("field %s is given twice", key)
	}
	f.has |= bit
	return ""
}

// find returns the series of a line: by its text, if that was met before.
func (in *intake) find(f *fields) (*metric.Series, string) {
	t := append(in.text[:0], in.host...)
	t = append(t, 0)
	t = append(t, f.name...)
	t = append(t, f.labels...)
	in.text = t
	if s := in.spelled(t); s != nil {
		return s, ""
	}
	s := in.book.older(t)
	if s == nil {
		var why string
		if s, why = in.readSeries(f); why != "" {
			return nil, why
		}
	}
	return in.admit(s, t)
}

func (in *intake) readSeries(f *fields) (*metric.Series, string) {
	name, ok := text(f.name)
	if !ok {
		return nil, "the name is not UTF-8 text"
	}
	ls, why := readLabels(f.labels)
	if why != "" {
		return nil, why
	}
	return in.withHost(name, ls)
}

// withHost makes a series, with the sender's host if it names none.
func (in *intake) withHost(name string, ls []metric.Label) (*metric.Series, string) {
	host := false
	for _, l := range ls {
		host = host || l.Name == "host" && l.Value != ""
	}
	if !host {
		ls = append(ls, in.hostSet...)
	}
	s, err := metric.NewSeries(name, ls)
	if err != nil {
		return nil, err.Error()
	}
	return s, ""
}

func readLabels(object []byte) (ls []metric.Label, why string) {
	if object == nil {
		return nil, ""
	}
	s := scan{b: object, i: 1}
	for !s.take('}') {
		if len(ls) > 0 && !s.take(',') {
			return nil, "labels: want , or } after a label"
		}
		if len(ls) > 4*metric.MaxLabels {
			return nil, fmt.Sprintf("labels: more than %d", metric.MaxLabels)
		}
		k := s.str()
		if k == nil || !s.take(':') {
			return nil, "labels: want a name in quotes and a colon"
		}
		v := s.str()
		if v == nil {
			return nil, fmt.Sprintf("labels: the value of %.60s is not text in quotes", k)
		}
		name, ok := text(k)
		value, ok2 := text(v)
		if !ok || !ok2 {
			return nil, "labels: not UTF-8 text"
		}
		ls = append(ls, metric.Label{Name: name, Value: value})
	}
	return ls, ""
}

// pairs takes [[at,value],…]; from the first that is not a pair on, the rest
// of the line is not taken.
func (in *intake) pairs(number int, series *metric.Series, array []byte) {
	s := scan{b: array, i: 1}
	for k := 0; !s.take(']'); k++ {
		if k > 0 && !s.take(',') || !s.take('[') {
			in.reject(number, k, "points: want [[time,value],…]; the rest of the line is not taken")
			return
		}
		at, why := s.at()
		comma := s.take(',')
		v, whyV := s.value()
		if whyV != "" && s.peek() == '"' {
			s.str()
		}
		if !comma || !s.take(']') {
			in.reject(number, k, "points: want [[time,value],…]; the rest of the line is not taken")
			return
		}
		if why == "" {
			why = whyV
		}
		if why == "" {
			why = in.point(series, at, v)
		}
		if why != "" {
			in.reject(number, k, why)
		}
	}
}
