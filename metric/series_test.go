package metric

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestKeyRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := series(t)
		back, err := ParseSeries(s.Key())
		if err != nil {
			t.Fatal(err)
		}
		if back.Key() != s.Key() || back.ID() != s.ID() || !slices.Equal(back.Labels, s.Labels) || s.ID() < 0 {
			t.Fatalf("%s became %s", s, back)
		}
	})
}

// The ID is stored: it must be the same for ever.
func TestIDsStay(t *testing.T) {
	for key, want := range map[string]int64{
		`up`: 4238243905239565871, `host_load_count{host="a"}`: 6054057131340028594,
	} {
		s, err := ParseSeries(key)
		if err != nil {
			t.Fatal(err)
		}
		if s.ID() != want {
			t.Errorf("%s has the ID %d, want %d", key, s.ID(), want)
		}
	}
}

func TestOrderAndForms(t *testing.T) {
	a, err := NewSeries("up", []Label{{"b", "2"}, {"a", "1"}, {"c", ""}})
	if err != nil {
		t.Fatal(err)
	}
	for _, form := range []string{`up{a="1",b="2"}`, ` up {b="2", a = "1" ,}`, "up{\ta=\"1\",b=\"2\",c=\"\"}"} {
		s, err := ParseSeries(form)
		if err != nil || s.Key() != a.Key() {
			t.Errorf("%s: %v, %v; want %s", form, s, err, a)
		}
	}
	if a.Get("a") != "1" || a.Get("c") != "" || a.Get("__name__") != "up" {
		t.Errorf("labels of %s", a)
	}
}

func TestRefusedSeries(t *testing.T) {
	many := ""
	for i := range MaxLabels + 1 {
		many += fmt.Sprintf(`l%d="x",`, i)
	}
	for form, want := range map[string]string{
		"":                             "metric name",
		"1up":                          "metric name",
		"ü":                            "metric name",
		strings.Repeat("a", MaxName+1): "metric name",
		`up{`:                          "without =",
		`up{a=1}`:                      "double quotes",
		`up{a="1"`:                     "want , or }",
		`up{a="1}`:                     "closing quote",
		`up{a="1\`:                     "within an escape",
		`up{a="\x"}`:                   "unknown escape",
		`up{a="1"}x`:                   "after the closing brace",
		`up{a="1",a="2"}`:              "given twice",
		`up{__name__="x"}`:             "label name",
		`up{a-b="x"}`:                  "label name",
		"up{a=\"\xff\"}":               "UTF-8",
		"up{a=\"\x00\"}":               "NUL",
		`up{a="` + strings.Repeat("x", 1025) + `"}`: "1025 bytes",
		"up{" + many + "}":                          "33 labels",
		`up{a="` + strings.Repeat("x", 9000) + `"}`: "9008 bytes",
	} {
		if s, err := ParseSeries(form); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, %v; want an error with %q", form, s, err, want)
		} else if len(err.Error()) > 400 {
			t.Errorf("%.40q: an error of %d bytes", form, len(err.Error()))
		}
	}
}

func FuzzParseSeries(f *testing.F) {
	for _, s := range []string{`up`, `up{a="1"}`, `a{b="\\\"\n",c="ü"}`, "x{,}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseSeries(text)
		if err != nil {
			return
		}
		back, err := ParseSeries(s.Key())
		if err != nil || back.Key() != s.Key() || back.ID() != s.ID() {
			t.Fatalf("%q gave %q, which gives %v, %v", text, s.Key(), back, err)
		}
		if !utf8.ValidString(s.Key()) || len(s.Key()) > MaxKey {
			t.Fatalf("%q is a key of %d bytes", s.Key(), len(s.Key()))
		}
	})
}

func TestClean(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		raw := string(rapid.SliceOfN(rapid.Byte(), 0, 3*MaxValue).Draw(t, "text"))
		if rapid.Bool().Draw(t, "valid") {
			raw = rapid.StringN(0, MaxValue, -1).Draw(t, "text")
		}
		c := Clean(raw)
		if _, err := NewSeries("up", []Label{{"a", c}}); err != nil {
			t.Fatalf("%q is still refused: %v", c, err)
		}
		if utf8.ValidString(raw) && !strings.Contains(raw, "\x00") && len(raw) <= MaxValue && c != raw {
			t.Fatalf("%q was changed to %q", raw, c)
		}
	})
}

func TestWindow(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	w := Window{Past: 24 * time.Hour, Future: 5 * time.Minute}
	ms := func(d time.Duration) int64 { return now.Add(d).UnixMilli() }
	nan, inf := math.NaN(), math.Inf(1)
	for _, c := range []struct {
		p    Point
		want string
	}{
		{Point{ms(0), 1}, ""}, {Point{ms(5 * time.Minute), 1}, ""}, {Point{ms(-24 * time.Hour), 1}, ""},
		{Point{ms(0), nan}, "not a number"}, {Point{ms(0), inf}, "infinite"}, {Point{ms(0), -inf}, "infinite"},
		{Point{ms(6 * time.Minute), 1}, "ahead"}, {Point{ms(365 * 24 * time.Hour), 1}, "ahead"},
		{Point{ms(-25 * time.Hour), 1}, "older"}, {Point{0, 1}, "older"}, {Point{-5, 1}, "older"},
	} {
		if got := w.Why(c.p, now); c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%v: %q, want %q", c.p, got, c.want)
		}
	}
	if got := (Window{}).Why(Point{0, 1}, now); got != "time before 1970" {
		t.Errorf("any age: %q", got)
	}
}
