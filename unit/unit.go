// Package unit holds the base units that every figure inside Headroom is kept
// in, and the only conversions to and from what people write. Inside: bytes,
// seconds, ratios (1 = 100 %), counts, per second. Pretty forms exist for
// sentences and tables only and are never parsed back.
package unit

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Unit names what a figure counts, in the base unit it is stored in.
type Unit string

// The base units.
const (
	None           Unit = ""
	Byte           Unit = "bytes"
	Second         Unit = "seconds"
	Ratio          Unit = "ratio" // 1 means 100 %
	Count          Unit = "count"
	PerSecond      Unit = "per second"
	BytesPerSecond Unit = "bytes per second"
)

// Sizes as PostgreSQL and the kernel write them: powers of 1024.
const (
	KB = 1 << 10
	MB = 1 << 20
	GB = 1 << 30
	TB = 1 << 40
)

// Format writes v for a person: three significant digits and a prefix, in
// powers of 1024 for bytes (kB, MB, GB as PostgreSQL writes them) and of 1000
// for the rest. It never loses the sign and writes NaN as "?".
func Format(v float64, u Unit) string {
	if math.IsNaN(v) {
		return "?"
	}
	switch u {
	case Byte:
		return scaled(v, 1024, []string{" B", " kB", " MB", " GB", " TB", " PB"})
	case BytesPerSecond:
		return scaled(v, 1024, []string{" B/s", " kB/s", " MB/s", " GB/s", " TB/s"})
	case Second:
		return duration(v)
	case Ratio:
		return digits(v*100) + " %"
	case PerSecond:
		return scaled(v, 1000, []string{"/s", " k/s", " M/s", " G/s"})
	case Count:
		if v == math.Trunc(v) && math.Abs(v) < 1e15 {
			return group(int64(v))
		}
		return digits(v)
	}
	return digits(v)
}

// Bytes is Format for a whole number of bytes.
func Bytes[T ~int | ~int64 | ~uint64](n T) string { return Format(float64(n), Byte) }

// Seconds is Format for seconds.
func Seconds(s float64) string { return Format(s, Second) }

func scaled(v, base float64, names []string) string {
	i := 0
	for math.Abs(v) >= base*0.9995 && i < len(names)-1 {
		v /= base
		i++
	}
	return digits(v) + names[i]
}

func duration(s float64) string {
	a := math.Abs(s)
	switch {
	case a == 0:
		return "0 s"
	case a < 1e-6:
		return digits(s*1e9) + " ns"
	case a < 1e-3:
		return digits(s*1e6) + " µs"
	case a < 1:
		return digits(s*1e3) + " ms"
	case a < 120:
		return digits(s) + " s"
	case a < 7200:
		return digits(s/60) + " min"
	case a < 48*3600:
		return digits(s/3600) + " h"
	}
	return digits(s/86400) + " days"
}

// digits writes three significant digits, and all digits of larger whole
// numbers, without trailing zeros.
func digits(v float64) string {
	a := math.Abs(v)
	if a >= 100 || a == math.Trunc(a) {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	prec := 2
	if a >= 10 {
		prec = 1
	} else if a < 1 && a > 0 {
		prec = 2 - int(math.Floor(math.Log10(a)))
	}
	s := strconv.FormatFloat(v, 'f', prec, 64)
	return strings.TrimRight(strings.TrimRight(s, "0"), ".")
}

func group(n int64) string {
	s := strconv.FormatInt(n, 10)
	sign := ""
	if s[0] == '-' {
		sign, s = "-", s[1:]
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return sign + s
}

var suffixes = map[string]struct {
	unit   Unit
	factor float64
}{
	"b": {Byte, 1}, "kb": {Byte, KB}, "mb": {Byte, MB}, "gb": {Byte, GB}, "tb": {Byte, TB},
	"k": {Byte, KB}, "m": {Byte, MB}, "g": {Byte, GB}, "t": {Byte, TB},
	"kib": {Byte, KB}, "mib": {Byte, MB}, "gib": {Byte, GB}, "tib": {Byte, TB},
	"8kb": {Byte, 8 * KB}, "16kb": {Byte, 16 * KB}, "32kb": {Byte, 32 * KB}, "4kb": {Byte, 4 * KB},
	"us": {Second, 1e-6}, "ms": {Second, 1e-3}, "s": {Second, 1}, "min": {Second, 60},
	"h": {Second, 3600}, "d": {Second, 86400},
	"%": {Ratio, 0.01},
}

// Suffix resolves a unit word as PostgreSQL's pg_settings.unit ("8kB", "MB",
// "ms", "min") or a person ("GiB", "s", "%") writes it, without regard to
// case, into its base unit and factor. ok is false for an unknown word; an
// empty word is a bare number.
func Suffix(word string) (u Unit, factor float64, ok bool) {
	if word == "" {
		return None, 1, true
	}
	if word == "B" {
		return Byte, 1, true
	}
	f, ok := suffixes[strings.ToLower(word)]
	return f.unit, f.factor, ok
}

// Parse reads "10GB", "1.5 h", "200ms", "0.9", "35 %" into base units. A bare
// number has unit None. The error names the part that is not understood.
func Parse(s string) (float64, Unit, error) {
	t := strings.TrimSpace(s)
	end := len(t)
	for end > 0 && !strings.ContainsRune("0123456789.", rune(t[end-1])) {
		end--
	}
	v, err := strconv.ParseFloat(strings.TrimSpace(t[:end]), 64)
	if err != nil {
		return 0, None, fmt.Errorf("read %q: not a number with a unit", s)
	}
	word := strings.TrimSpace(t[end:])
	u, factor, ok := Suffix(word)
	if !ok {
		return 0, None, fmt.Errorf("read %q: unknown unit %q (known: B kB MB GB TB, us ms s min h d, %%)", s, word)
	}
	return v * factor, u, nil
}
