package upsert

import (
	"math"
	"math/rand/v2"
	"testing"
)

// On a surface with one top the climber gets near it from any start, with
// noise of 2 %, and then rests most of the time.
func TestClimberFindsTheTop(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 0))
		top := knobs{250 << rng.IntN(8), 1 + rng.IntN(8), rng.IntN(2)}
		rate := func(k knobs) float64 {
			r := 1e5 / (1 + 0.2*math.Abs(math.Log2(float64(k.batch)/float64(top.batch))) + 0.15*math.Abs(float64(k.width-top.width)))
			if k.form != top.form {
				r *= 0.8
			}
			return r * (1 + 0.02*rng.NormFloat64())
		}
		c := climber{base: knobs{250 << rng.IntN(8), 1 + rng.IntN(8), 0}, low: knobs{250, 1, 0}, high: knobs{32_000, 8, 1}}
		tries := 0
		for range 600 {
			if c.phase == 1 {
				tries++
			}
			c.step(rate(c.at()))
		}
		if got := rate(c.base) / rate(top); got < 0.85 {
			t.Errorf("seed %d: stays at %+v, the top is %+v: %.2f of its rate", seed, c.base, top, got)
		}
		if tries > 150 {
			t.Errorf("seed %d: %d of 600 windows were spent on trying", seed, tries)
		}
		k := c.at()
		if k.batch < c.low.batch || k.batch > c.high.batch || k.width < 1 || k.width > 8 {
			t.Errorf("seed %d: out of bounds: %+v", seed, k)
		}
	}
}

func TestClimberWithNothingToTurn(t *testing.T) {
	c := climber{base: knobs{100, 2, 0}, low: knobs{100, 2, 0}, high: knobs{100, 2, 0}}
	for range 100 {
		c.step(1)
		if c.at() != c.base {
			t.Fatalf("%+v", c)
		}
	}
}
