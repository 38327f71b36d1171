package stats

import (
	"encoding/json"
	"math"
)

// Interval is an estimate with its doubt. Lo <= Center <= Hi, all in the unit
// of the thing estimated. Level is the confidence, for example 0.95. A bound
// that the data cannot give is infinite (0 below for a ratio).
type Interval struct {
	Lo, Center, Hi, Level float64
}

// Contains reports whether v lies within the interval, its ends included.
func (i Interval) Contains(v float64) bool { return i.Lo <= v && v <= i.Hi }

// Bound is for the interval of a ratio: the largest difference either way that
// it leaves open, as a ratio above 1 less 1. [0.98, 1.01] has the bound 0.0204,
// because 1/0.98 = 1.0204. It is +Inf when the interval is open.
func (i Interval) Bound() float64 { return math.Max(i.Hi, 1/i.Lo) - 1 }

// Inverse is the interval of 1/x, for a ratio read the other way round.
func (i Interval) Inverse() Interval {
	return Interval{Lo: 1 / i.Hi, Center: 1 / i.Center, Hi: 1 / i.Lo, Level: i.Level}
}

// ratio turns centre and half width on the log scale into a ratio.
func ratio(center, half, level float64) Interval {
	return Interval{
		Lo: math.Exp(center - half), Center: math.Exp(center), Hi: math.Exp(center + half), Level: level,
	}
}

type jsonInterval struct {
	Lo     *float64 `json:"lo"`
	Center *float64 `json:"center"`
	Hi     *float64 `json:"hi"`
	Level  float64  `json:"level"`
}

// MarshalJSON writes lo, center, hi and level. JSON has no infinity: a bound
// that is not known is written as null.
func (i Interval) MarshalJSON() ([]byte, error) {
	return json.Marshal(jsonInterval{finite(i.Lo), finite(i.Center), finite(i.Hi), i.Level})
}

// UnmarshalJSON reads what MarshalJSON wrote. A null low bound becomes -Inf, a
// null high bound +Inf and a null centre NaN.
func (i *Interval) UnmarshalJSON(b []byte) error {
	var j jsonInterval
	if err := json.Unmarshal(b, &j); err != nil {
		return err
	}
	*i = Interval{or(j.Lo, math.Inf(-1)), or(j.Center, math.NaN()), or(j.Hi, math.Inf(1)), j.Level}
	return nil
}

func finite(v float64) *float64 {
	if math.IsInf(v, 0) || math.IsNaN(v) {
		return nil
	}
	return &v
}

func or(p *float64, absent float64) float64 {
	if p == nil {
		return absent
	}
	return *p
}
