package store

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"headroom/metric"
)

// A run gives back what was added, to the bit, whatever that was and however
// runs were joined.
func TestRunGivesBack(t *testing.T) {
	odd := []float64{0, 1, -1, 0.5, 1 << 52, 1<<53 - 1, 1 << 53, -(1<<53 - 1), -(1 << 53), 1e300, -1e-300, 5e-324, math.MaxFloat64, -math.MaxFloat64, 12345.678}
	rapid.Check(t, func(t *rapid.T) {
		var c coder
		var a, b run
		var inA, inB []metric.Point
		for range rapid.IntRange(0, 120).Draw(t, "steps") {
			p := metric.Point{At: rapid.Int64Range(1, 1<<42).Draw(t, "at"), Value: rapid.OneOf(rapid.SampledFrom(odd), rapid.Float64(), rapid.Map(rapid.IntRange(-1000, 1000), func(i int) float64 { return float64(i) })).Draw(t, "value")}
			p.Value += 0 // as all values that come here
			switch rapid.IntRange(0, 20).Draw(t, "what") {
			case 0:
				a.join(&c, &b)
				inA, inB = append(inA, inB...), nil
			case 1, 2, 3, 4, 5:
				a.add(&c, p)
				inA = append(inA, p)
			default:
				b.add(&c, p)
				inB = append(inB, p)
			}
		}
		for _, x := range []struct {
			r    *run
			want []metric.Point
		}{{&a, inA}, {&b, inB}} {
			if got := x.r.list(&c, nil); !slices.Equal(got, x.want) || int(x.r.n) != len(x.want) {
				t.Fatalf("%d points: %v, want %v", x.r.n, got, x.want)
			}
		}
	})
}

// An hour of a series that is read once a minute takes little memory.
func TestRunIsSmall(t *testing.T) {
	for name, of := range map[string]func(i int) float64{
		"a counter": func(i int) float64 { return float64(1e9 + i*350_000 + i*i%65_536) },
		"a gauge":   func(i int) float64 { return float64(8e9 + i*7919%8192*4096) },
	} {
		var c coder
		var r run
		most := 0
		for i := range 60 {
			r.add(&c, metric.Point{At: 1772000000000 + int64(i)*60_000, Value: of(i)})
			most = max(most, r.size())
		}
		if most > 480 {
			t.Errorf("%s: %d bytes for 60 points", name, most)
		}
	}
}
