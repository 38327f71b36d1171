package unit

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

func TestFormat(t *testing.T) {
	f := func(v float64, u Unit, want string) {
		t.Helper()
		if got := Format(v, u); got != want {
			t.Errorf("Format(%v, %q) = %q, want %q", v, u, got, want)
		}
	}
	f(0, Byte, "0 B")
	f(128*MB, Byte, "128 MB")
	f(1.5*GB, Byte, "1.5 GB")
	f(1024*MB, Byte, "1 GB")
	f(0.00012, Second, "120 µs")
	f(300, Second, "5 min")
	f(0.9, Ratio, "90 %")
	f(0.0123, Ratio, "1.23 %")
	f(215000, PerSecond, "215 k/s")
	f(1234567, Count, "1,234,567")
	f(-1234, Count, "-1,234")
	f(math.NaN(), Byte, "?")
	f(2.5, None, "2.5")
	f(0.052, None, "0.052")
}

func TestParse(t *testing.T) {
	f := func(s string, want float64, u Unit) {
		t.Helper()
		got, gu, err := Parse(s)
		if err != nil || got != want || gu != u {
			t.Errorf("Parse(%q) = %v %q %v, want %v %q", s, got, gu, err, want, u)
		}
	}
	f("10GB", 10*GB, Byte)
	f("1.5 h", 5400, Second)
	f("200ms", 0.2, Second)
	f("0.9", 0.9, None)
	f("50 %", 0.5, Ratio)
	f("-1", -1, None)
	for _, bad := range []string{"", "GB", "10 parsecs", "1e", "--3"} {
		if _, _, err := Parse(bad); err == nil {
			t.Errorf("Parse(%q) must fail", bad)
		}
	}
}

func TestParseNeverPanics(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { _, _, _ = Parse(rapid.String().Draw(t, "s")) })
}
