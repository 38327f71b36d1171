package api

import (
	"bufio"
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"testing"
	"time"

	"headroom/metric"
	"headroom/web/live"
)

func fuzzIntake(t testing.TB) *intake {
	a := New(Parts{Host: "here", Queue: sinkQueue{}, Hub: live.New(live.Options{})})
	t.Cleanup(a.Close)
	now := time.Now()
	in := &intake{API: a, receipt: &receipt{}, now: now, host: "here", hostSet: []metric.Label{{Name: "host", Value: "here"}}}
	in.ends = now.Add(time.Hour).UnixMilli()
	in.by = &bringer{budget: 1000}
	in.b = newBuilder(t.Context(), a, "here", []byte("k"))
	return in
}

// What is not JSON is never taken, and what is taken is what encoding/json
// reads.
func FuzzLines(f *testing.F) {
	for _, s := range []string{
		`{"name":"x","labels":{"a":"b"},"at":1763733600000,"value":1.5}`,
		`{"name":"x","points":[[1763733600000,1],["2026-11-21T14:00:00Z",2e3]]}`,
		`{"na\u006de":"x","value":1}`, `{"name":"\ud800","value":1}`, `{"name":"x","labels":{"a":"\\"},"value":-0}`, "{}\n\n\xef\xbb\xbf{", `{"name":"x","value":00}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		if bytes.IndexByte(line, '\n') >= 0 {
			line = bytes.ReplaceAll(line, []byte("\n"), []byte(" "))
		}
		in := fuzzIntake(t)
		in.line(1, line)
		if len(in.b.load.flat) > 0 && in.Rejected == 0 {
			var v struct {
				Name   string
				Value  *float64
				Points [][2]json.RawMessage
			}
			if err := json.Unmarshal(bytes.TrimPrefix(line, []byte("\xef\xbb\xbf")), &v); err != nil {
				if !lenient(line) {
					t.Errorf("taken, and not JSON: %q: %v", line, err)
				}
			} else if v.Value != nil && *v.Value != in.b.load.flat[0].value {
				t.Errorf("%q: read %v, want %v", line, in.b.load.flat[0].value, *v.Value)
			}
		}
		if err := in.b.done(); err != nil {
			t.Error(err)
		}
	})
}

// lenient says whether the line has a number like 007 or 1., which JSON
// forbids and which is read as any person would.
func lenient(line []byte) bool {
	for _, w := range bytes.FieldsFunc(line, func(r rune) bool { return bytes.ContainsRune([]byte(`,:[]{} "`+"\t\r"), r) }) {
		if _, err := strconv.ParseFloat(string(w), 64); err == nil && !json.Valid(w) {
			return true
		}
	}
	return false
}

func FuzzNumber(f *testing.F) {
	for _, s := range []string{"1.5", "-0.1", "123456789012345", "1e5", "0.000000000000001", "9007199254740993", "1."} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) == 0 {
			return
		}
		v, ok := simpleNumber([]byte(text))
		if !ok {
			return
		}
		want, err := strconv.ParseFloat(text, 64)
		if err != nil || math.Float64bits(v) != math.Float64bits(want) && !(v == 0 && want == 0) {
			t.Errorf("%q: read %v, want %v (%v)", text, v, want, err)
		}
	})
}

func FuzzRemoteWrite(f *testing.F) {
	now := time.Now().UnixMilli()
	f.Add(writeRequest(remoteSeries(map[string]string{"__name__": "up", "a": "b"}, []string{"__name__", "a"}, remoteSample{1, now})))
	f.Add([]byte("\x0a\x02\x0a\x00"))
	f.Fuzz(func(t *testing.T, msg []byte) {
		in := fuzzIntake(t)
		_ = in.writeRequest(msg) // any error is right; a panic is not
		if err := in.b.done(); err != nil {
			t.Error(err)
		}
	})
}

func FuzzFrames(f *testing.F) {
	f.Add([]byte("\x05HB\x01xx"))
	f.Fuzz(func(t *testing.T, body []byte) {
		in := fuzzIntake(t)
		_ = in.frames(bufio.NewReader(bytes.NewReader(body))) // any error is right; a panic is not
		if err := in.b.done(); err != nil {
			t.Error(err)
		}
	})
}

func FuzzSelector(f *testing.F) {
	for _, s := range []string{`up`, `a{b="c",d!~"e.*",}`, "{x=~`a|b`}", `{`, `a{b="\n\\\""}`, `{__name__!="x"} `} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		ms, err := parseSelector(text)
		if err != nil {
			return
		}
		if len(ms) == 0 {
			t.Errorf("%q: taken and empty", text)
		}
		_, _ = live.NewFilter(ms) // a pattern may be wrong
	})
}
