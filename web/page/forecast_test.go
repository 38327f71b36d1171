package page

import (
	"math"
	"math/rand"
	"strings"
	"testing"
	"time"
)

// made returns hourly values of f for some days.
func made(days float64, f func(hour float64) float64) []sample {
	start := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	var out []sample
	for h := 0.0; h <= days*24; h++ {
		out = append(out, sample{start.Add(time.Duration(h) * time.Hour), f(h)})
	}
	return out
}

func TestForecastOfAStraightLine(t *testing.T) {
	f := foresee(made(10, func(h float64) float64 { return 0.5 + 0.01*h/24 }))
	// 0.6 at the end less two hours' mean: 40 days, as sure as can be.
	for _, d := range []time.Duration{f.Likely, f.Soonest, f.Latest} {
		if math.Abs(d.Hours()/24-40) > 0.2 {
			t.Errorf("%v, want 40 days", d.Hours()/24)
		}
	}
	if s := f.String(); !strings.HasPrefix(s, "full in 40 days") {
		t.Error(s)
	}
}

func TestForecastSaysWhatItCannotTell(t *testing.T) {
	flat := func(float64) float64 { return 0.5 }
	for want, f := range map[string]forecast{
		"could not tell: there are no samples":                 foresee(nil),
		"could not tell: only 20 min of data; a day is needed": foresee([]sample{{time.Unix(0, 0), 0.1}, {time.Unix(1200, 0), 0.1}}),
		"could not tell: only 20 h of data; a day is needed":   foresee(made(20.0/24, flat)),
		"not filling up":         foresee(made(3, flat)),
		"not full within a year": foresee(made(10, func(h float64) float64 { return 0.1 + 1e-5*h })),
		"could not tell: it swings too slowly to tell a trend from chance": foresee(made(2, func(h float64) float64 { return 0.5 + 0.4*math.Sin(h/48*2*math.Pi) })),
	} {
		if got := f.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	// Noise without a trend must not make one: it may be soonest, never likely.
	rng := rand.New(rand.NewSource(1))
	if f := foresee(made(7, func(float64) float64 { return 0.3 + 0.1*rng.NormFloat64() })); f.Latest != 0 {
		t.Errorf("noise is full in %v at the latest", f.Latest)
	}
}

// The interval of the slope holds the true one about as often as it says,
// with errors that resemble their neighbours, as those of machines do.
func TestForecastCoverage(t *testing.T) {
	rng := rand.New(rand.NewSource(7))
	const runs = 600
	for _, like := range []float64{0, 0.5, 0.8} {
		held := 0
		for range runs {
			const slope = 0.001 // an hour
			e := 0.0
			all := made(14, func(h float64) float64 {
				e = like*e + 0.02*rng.NormFloat64()
				return 0.1 + slope*h + e
			})
			f := foresee(all)
			_, y := hourly(all)
			room := 1 - recent(y)
			soon, late := room/f.Soonest.Hours(), 0.0
			if f.Latest > 0 {
				late = room / f.Latest.Hours()
			}
			if f.Unknown == "" && late <= slope && slope <= soon {
				held++
			}
		}
		if share := float64(held) / runs; share < 0.83 {
			t.Errorf("likeness %v: the interval holds the slope in %.0f of 100 runs, want about 90", like, share*100)
		}
	}
}
