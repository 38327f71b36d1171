package stats

import "fmt"

// MinPairs is the fewest pairs a verdict is given on.
const MinPairs = 6

// MaxPairs is the most pairs a plan may hold.
const MaxPairs = 10000

// Plan is fixed before the first pair: how many pairs at most, and after which
// of them to look. Each look is three quarters of the way to the next.
type Plan struct {
	Rule
	Max   int   `json:"max"`   // pairs at most, the last look
	Looks []int `json:"looks"` // pairs at each look, rising
}

// Plan sets the looks for at most max pairs (MinPairs to MaxPairs).
func (r Rule) Plan(max int) (Plan, error) {
	if err := r.Check(); err != nil {
		return Plan{}, err
	}
	if max < MinPairs || max > MaxPairs {
		return Plan{}, fmt.Errorf("plan trial: %d pairs, want %d to %d", max, MinPairs, MaxPairs)
	}
	return Plan{Rule: r, Max: max, Looks: looks(max)}, nil
}

func looks(max int) []int {
	var l []int
	for n := float64(max); n >= MinPairs; n *= 0.75 {
		l = append([]int{int(n)}, l...)
	}
	return l
}

// AlphaAt is the error that look i (from 0) may spend for one arm: after n of
// Max pairs the looks have spent the share (n/Max)² of Alpha/Arms, and the last
// look spends what is left. Their sum is Alpha/Arms, and the sum bounds the
// chance that any look errs, however the looks depend on each other.
func (p Plan) AlphaAt(i int) float64 {
	before := 0.0
	if i > 0 {
		before = p.spent(p.Looks[i-1])
	}
	if i == len(p.Looks)-1 {
		return p.alpha() - before
	}
	return p.spent(p.Looks[i]) - before
}

// spent is the error used up once n pairs have been looked at.
func (p Plan) spent(n int) float64 {
	share := float64(n) / float64(p.Max)
	return p.alpha() * share * share
}

// lastLook is the index of the last look that n pairs reach, or -1.
func (p Plan) lastLook(n int) int {
	last := -1
	for i, at := range p.Looks {
		if at <= n {
			last = i
		}
	}
	return last
}

// At compares the first Looks[i] pairs by the repeated interval of look i.
// It holds for any measure at whatever look the run stopped, so secondary
// measures use it too: each is then valid by itself, but gets no verdict.
func (p Plan) At(i int, pairs []Pair) (Comparison, error) {
	if i < 0 || i >= len(p.Looks) || len(pairs) < p.Looks[i] {
		return Comparison{}, fmt.Errorf("compare pairs: no look %d with %d pairs", i+1, len(pairs))
	}
	pairs = pairs[:p.Looks[i]]
	c, err := Compare(pairs, 1-p.AlphaAt(i))
	c.Ratio.Level = p.Level()
	return c, err
}

// closed is the plan of a run that ends at n pairs: the looks before n stay
// and the one at n is the last.
func (p Plan) closed(n int) Plan {
	i := p.lastLook(n - 1)
	q := p
	q.Looks = append(append([]int{}, p.Looks[:i+1]...), n)
	return q
}
