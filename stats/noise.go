package stats

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// Noise is how much one pair's log ratio scatters when nothing was changed:
// near enough the relative standard deviation of a pair, a ratio.
type Noise struct {
	SD float64 `json:"sd"`
	// Upper is the one-sided 90 % upper limit of SD. Budgets are made with it,
	// because a few pairs know their own noise badly.
	Upper float64 `json:"upper"`
	N     int     `json:"n"` // pairs or rounds it was taken from
	// DF is the degrees of freedom behind SD: how well it is known.
	DF float64 `json:"df,omitempty"`
}

// NoiseOf measures the noise from pairs of a run against itself. The centre
// may differ from 1: only the scatter counts. It needs at least 3 pairs.
func NoiseOf(pairs []Pair) (Noise, error) {
	d, err := logs(pairs)
	if err != nil {
		return Noise{}, err
	}
	if len(d) < 3 {
		return Noise{}, fmt.Errorf("measure noise: %d pairs, want at least 3", len(d))
	}
	t := trim(d, cut(len(d)))
	return noise(t.sd(), t.df, len(d)), nil
}

// NoiseOfRounds measures the noise that pairs would have from rounds of one
// arm in the order they ran: neighbours differ as the two halves of a pair do
// (von Neumann's mean square successive difference). It needs 4 rounds or more.
func NoiseOfRounds(rounds []float64) (Noise, error) {
	if err := positive(rounds...); err != nil {
		return Noise{}, fmt.Errorf("measure noise: %w", err)
	}
	if len(rounds) < 4 {
		return Noise{}, fmt.Errorf("measure noise: %d rounds, want at least 4", len(rounds))
	}
	s := 0.0
	for i := 1; i < len(rounds); i++ {
		step := math.Log(rounds[i] / rounds[i-1])
		s += step * step
	}
	steps := float64(len(rounds) - 1)
	// Neighbouring steps share a round, which leaves two thirds of the freedom.
	return noise(math.Sqrt(s/steps), steps*2/3, len(rounds)), nil
}

func noise(sd, df float64, n int) Noise {
	low := distuv.ChiSquared{K: df}.Quantile(0.1)
	return Noise{SD: sd, Upper: sd * math.Sqrt(df/low), N: n, DF: df}
}

// And is the noise as both samples together show it. What the two were centred
// on does not matter, so pairs with different effects may be joined.
func (n Noise) And(m Noise) Noise {
	df := n.DF + m.DF
	if df <= 0 {
		return n
	}
	return noise(math.Sqrt((n.SD*n.SD*n.DF+m.SD*m.SD*m.DF)/df), df, n.N+m.N)
}

// trimLoss is what trimming adds to the standard error under normal noise
// (1.03), and a little for runs that wrongly stop at NoDifference because the
// effect is just what matters.
const trimLoss = 1.05

// Detectable is the smallest effect (a ratio above 1 less 1, either way) that
// a plan of so many pairs calls Faster or Slower with at least the given power
// (for example 0.95), if the noise is no more than noise.Upper. It is +Inf
// under MinPairs pairs.
func (r Rule) Detectable(noise Noise, pairs int, power float64) float64 {
	if pairs < MinPairs || pairs > MaxPairs {
		return math.Inf(1)
	}
	l := looks(pairs)
	alpha := Plan{Rule: r, Max: pairs, Looks: l}.AlphaAt(len(l) - 1)
	g := cut(pairs)
	df := float64(pairs - 2*g - 1)
	se := noise.Upper / math.Sqrt(float64(pairs))
	if g > 0 {
		se *= trimLoss
	}
	return (1+r.Margin)*math.Exp(se*shiftFor(critical(alpha, df), df, power)) - 1
}

// shiftFor is the distance from zero, in standard errors, at which a t test
// with critical value crit succeeds with probability power. Only the last look
// is counted; the looks before it can only add to the power.
func shiftFor(crit, df, power float64) float64 {
	lo, hi := 0.0, crit+10
	for range 40 {
		mid := (lo + hi) / 2
		if 1-(distuv.NoncentralT{Nu: df, Mu: mid}).CDF(crit) < power {
			lo = mid
		} else {
			hi = mid
		}
	}
	return hi
}

// PairsFor is the number of pairs to plan so that an effect (a ratio above 1
// less 1, either way) is called Faster or Slower with at least the given power,
// if the noise is no more than noise.Upper: Plan(PairsFor(...)) with Matter set
// to the effect. It refuses an effect within the margin, and one that would
// need more than MaxPairs.
func (r Rule) PairsFor(noise Noise, effect, power float64) (int, error) {
	if !(effect > r.Margin) {
		return 0, fmt.Errorf("plan pairs: an effect of %v is within the margin %v", effect, r.Margin)
	}
	if r.Detectable(noise, MaxPairs, power) > effect {
		return 0, fmt.Errorf("plan pairs: an effect of %v needs more than %d pairs at a noise of %.3g", effect, MaxPairs, noise.Upper)
	}
	lo, hi := MinPairs-1, MinPairs
	for r.Detectable(noise, hi, power) > effect {
		lo, hi = hi, min(2*hi, MaxPairs)
	}
	for hi-lo > 1 {
		mid := (lo + hi) / 2
		if r.Detectable(noise, mid, power) > effect {
			lo = mid
		} else {
			hi = mid
		}
	}
	return hi, nil
}
