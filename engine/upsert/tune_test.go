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
		for range 1500 {
			if c.trying() {
				tries++
			}
			c.step(rate(c.at()))
		}
		if got := rate(c.base) / rate(top); got < 0.85 {
			t.Errorf("seed %d: stays at %+v, the top is %+v: %.2f of its rate", seed, c.base, top, got)
		}
		if tries > 400 {
			t.Errorf("seed %d: %d of 1500 windows were spent on trying", seed, tries)
		}
		k := c.at()
		if k.batch < c.low.batch || k.batch > c.high.batch || k.width < 1 || k.width > 8 {
			t.Errorf("seed %d: out of bounds: %+v", seed, k)
		}
	}
}

// With noise of 20 % and nothing to gain the climber seldom moves, and not far.
func TestClimberDoesNotWander(t *testing.T) {
	moved := 0
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		start := knobs{4000, 4, 0}
		c := climber{base: start, low: knobs{1000, 2, 0}, high: knobs{16_000, 8, 1}}
		for range 300 {
			c.step(1e5 * (1 + 0.2*rng.NormFloat64()))
		}
		if c.base != start {
			moved++
		}
	}
	if moved > 50 {
		t.Errorf("%d of 200 wandered off in 300 windows of noise", moved)
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
