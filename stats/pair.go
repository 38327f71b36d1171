package stats

import (
	"fmt"
	"math"
)

// Better says which way a measure improves.
type Better string

// The two directions a measure can improve in.
const (
	Higher Better = "higher" // for example rows per second
	Lower  Better = "lower"  // for example seconds at the 99th percentile
)

// Pair is one block of a trial: one figure without the change and one with
// it, taken close together in time. Both are in the same base unit, finite
// and above zero, because they are compared as a ratio.
type Pair struct {
	Base    float64 `json:"base"`
	Changed float64 `json:"changed"`
}

// Ratio is Changed / Base, without a unit.
func (p Pair) Ratio() float64 { return p.Changed / p.Base }

// logs returns the natural logarithm of each pair's ratio, in order.
func logs(pairs []Pair) ([]float64, error) {
	d := make([]float64, len(pairs))
	for i, p := range pairs {
		if err := positive(p.Base, p.Changed); err != nil {
			return nil, fmt.Errorf("compare pairs: pair %d: %w", i+1, err)
		}
		d[i] = math.Log(p.Changed) - math.Log(p.Base)
	}
	return d, nil
}

// positive reports the first value that has no logarithm.
func positive(values ...float64) error {
	for _, v := range values {
		if !(v > 0) || math.IsInf(v, 1) {
			return fmt.Errorf("figure %v is not a finite number above zero", v)
		}
	}
	return nil
}

func halves(pairs []Pair) (base, changed []float64) {
	for _, p := range pairs {
		base = append(base, p.Base)
		changed = append(changed, p.Changed)
	}
	return base, changed
}
