package stats

import (
	"fmt"
	"math"
)

// Verdict is the answer of a trial.
type Verdict string

// The four answers.
const (
	Faster       Verdict = "faster"             // better by more than the margin
	Slower       Verdict = "slower"             // worse by more than the margin
	NoDifference Verdict = "no difference seen" // less than what matters, either way
	NeedsMore    Verdict = "needs more rounds"  // the interval is too wide to say
)

// Rule says what counts as a difference and how often it may be wrong. All
// effects are ratios above 1 less 1, and count the same both ways: 0.1 is
// 1.1 times as much or 1/1.1 times as much.
type Rule struct {
	Better Better `json:"better"`
	// Alpha bounds the chance that any arm of the whole experiment gets a
	// false Faster or Slower, all looks together.
	Alpha float64 `json:"alpha"`
	// Arms is the number of arms compared with the one base. Each gets
	// Alpha / Arms (Bonferroni), so that its interval stays valid too.
	Arms int `json:"arms"`
	// Margin is the difference that is never called Faster or Slower: two
	// equal servers may differ that much by where their memory lies.
	Margin float64 `json:"margin"`
	// Matter is the smallest difference worth knowing, above Margin. Once the
	// interval lies within it both ways, the answer is NoDifference. Set it to
	// the effect that the budget was planned for.
	Matter float64 `json:"matter"`
}

// DefaultRule allows 5 % false verdicts for one arm, calls nothing under 1 %
// a difference and stops looking for differences under 5 %.
func DefaultRule(better Better) Rule {
	return Rule{Better: better, Alpha: 0.05, Arms: 1, Margin: 0.01, Matter: 0.05}
}

// Check reports the first field that makes no sense.
func (r Rule) Check() error {
	switch {
	case r.Better != Higher && r.Better != Lower:
		return fmt.Errorf("check rule: better is %q, want %q or %q", r.Better, Higher, Lower)
	case !(r.Alpha > 0 && r.Alpha < 0.5):
		return fmt.Errorf("check rule: alpha is %v, want above 0 and under 0.5", r.Alpha)
	case r.Arms < 1:
		return fmt.Errorf("check rule: %d arms, want at least 1", r.Arms)
	case !(r.Margin >= 0):
		return fmt.Errorf("check rule: margin is %v, want 0 or more", r.Margin)
	case !(r.Matter > r.Margin) || math.IsInf(r.Matter, 1):
		return fmt.Errorf("check rule: what matters is %v, want above the margin %v", r.Matter, r.Margin)
	}
	return nil
}

// Level is the confidence of one arm's interval, 1 - Alpha/Arms.
func (r Rule) Level() float64 { return 1 - r.alpha() }

func (r Rule) alpha() float64 { return r.Alpha / float64(r.Arms) }

// Judge reads an interval of changed / base by the rule. A difference beyond
// the margin is said first, so an interval within Matter but beyond Margin is
// Faster or Slower.
func (r Rule) Judge(changed Interval) Verdict {
	gain := changed
	if r.Better == Lower {
		gain = changed.Inverse()
	}
	switch {
	case gain.Lo > 1+r.Margin:
		return Faster
	case gain.Hi < 1/(1+r.Margin):
		return Slower
	case gain.Bound() <= r.Matter:
		return NoDifference
	}
	return NeedsMore
}
