package stats

import (
	"flag"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"
)

var trials = flag.Int("calibration.trials", 1500, "simulated trials for each kind of noise")

// A server is simulated round by round: noiseKind returns a function giving the
// log of the next round's figure for an arm, the same for both arms in law.
type noiseKind struct {
	name  string
	start func(*rand.Rand) func(arm int) float64
}

// sigma is the noise of one round; a pair has √2 times as much.
const sigma = 0.03

func each(f func(*rand.Rand) float64) func(*rand.Rand) func(int) float64 {
	return func(r *rand.Rand) func(int) float64 {
		return func(int) float64 { return sigma * f(r) }
	}
}

// exchangeable kinds treat both arms alike in every round, as a fair trial
// does; the rate of false verdicts must hold for all of them.
func exchangeable() []noiseKind {
	return []noiseKind{
		{"normal", each((*rand.Rand).NormFloat64)},
		{"heavy tails (t, 3 df)", each(t3)},
		{"skewed (exponential)", each(func(r *rand.Rand) float64 { return -r.ExpFloat64() })},
		{"two modes", each(func(r *rand.Rand) float64 { return 0.5*r.NormFloat64() - 4*chance(r, 0.3) })},
		{"wild rounds (5 %)", each(func(r *rand.Rand) float64 {
			return r.NormFloat64() - 12*r.Float64()*chance(r, 0.05)
		})},
		{"drift of the machine", func(r *rand.Rand) func(int) float64 {
			n := 0.0
			return func(int) float64 { n++; return sigma * (r.NormFloat64() + 0.2*n) }
		}},
		{"first in a block is worse", func(r *rand.Rand) func(int) float64 {
			n := 0
			return func(int) float64 { n++; return sigma * (r.NormFloat64() + 2*float64(n%2)) }
		}},
		{"autocorrelated machine (0.8)", func(r *rand.Rand) func(int) float64 {
			x := 0.0
			return func(int) float64 { x = 0.8*x + 0.6*r.NormFloat64(); return sigma * x }
		}},
	}
}

// own is noise that stays with an arm from round to round, as when each arm
// keeps a server of its own: the pairs then depend on each other.
func own(rho float64) noiseKind {
	return noiseKind{"autocorrelated arms", func(r *rand.Rand) func(int) float64 {
		x := [2]float64{r.NormFloat64(), r.NormFloat64()}
		return func(arm int) float64 {
			x[arm] = rho*x[arm] + math.Sqrt(1-rho*rho)*r.NormFloat64()
			return sigma * x[arm]
		}
	}}
}

func t3(r *rand.Rand) float64 {
	s := 0.0
	for range 3 {
		v := r.NormFloat64()
		s += v * v
	}
	return r.NormFloat64() / math.Sqrt(s/3)
}

func chance(r *rand.Rand, p float64) float64 {
	if r.Float64() < p {
		return 1
	}
	return 0
}

// run simulates n pairs in randomised order; the changed arm is 1+effect times
// the base.
func (k noiseKind) run(r *rand.Rand, n int, effect float64) []Pair {
	next := k.start(r)
	pairs := make([]Pair, n)
	for i, block := range Order(r, 2, n) {
		for _, arm := range block {
			v := 1000 * math.Exp(next(arm))
			if arm == 0 {
				pairs[i].Base = v
			} else {
				pairs[i].Changed = v * (1 + effect)
			}
		}
	}
	return pairs
}

// rate is a share of trials with its exact 95 % interval (Clopper and Pearson).
type rate struct{ hits, n int }

func (r *rate) add(hit bool) {
	r.n++
	if hit {
		r.hits++
	}
}

func (r rate) interval() Interval {
	x, n := float64(r.hits), float64(r.n)
	i := Interval{0, x / n, 1, 0.95}
	if r.hits > 0 {
		i.Lo = distuv.Beta{Alpha: x, Beta: n - x + 1}.Quantile(0.025)
	}
	if r.hits < r.n {
		i.Hi = distuv.Beta{Alpha: x + 1, Beta: n - x}.Quantile(0.975)
	}
	return i
}

func (r rate) log(t *testing.T, format string, args ...any) {
	t.Helper()
	i := r.interval()
	t.Logf(format+": %.2f %% (95 %% interval %.2f-%.2f, n=%d)",
		append(args, 100*i.Center, 100*i.Lo, 100*i.Hi, r.n)...)
}

// strict is a rule without margin, so that a false verdict is any verdict.
func strict() Rule {
	r := DefaultRule(Higher)
	r.Margin, r.Matter = 0, 1e-9
	return r
}

func mustPlan(t *testing.T, r Rule, max int) Plan {
	t.Helper()
	p, err := r.Plan(max)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// verdict decides on pairs without the words around it, to be quick.
func verdict(t *testing.T, p Plan, pairs []Pair) Decision {
	t.Helper()
	d, err := logs(pairs)
	if err != nil {
		t.Fatal(err)
	}
	return p.replay(d)
}

// falseRate is the share of trials without a difference that end in Faster or
// Slower.
func falseRate(t *testing.T, k noiseKind, rule Rule, max int) rate {
	t.Helper()
	r := rand.New(rand.NewPCG(20, uint64(max)))
	p, out := mustPlan(t, rule, max), rate{}
	for range *trials {
		v := verdict(t, p, k.run(r, max, 0)).Verdict
		out.add(v == Faster || v == Slower)
	}
	return out
}

func TestCalibrationNoFalseVerdicts(t *testing.T) {
	for _, k := range exchangeable() {
		for _, max := range []int{8, 15, 27} {
			bare := falseRate(t, k, strict(), max)
			bare.log(t, "false verdicts, %s, %d pairs, no margin", k.name, max)
			usual := falseRate(t, k, DefaultRule(Lower), max)
			usual.log(t, "false verdicts, %s, %d pairs, 1 %% margin", k.name, max)
			if bare.interval().Center > 0.05 || usual.interval().Center > 0.05 {
				t.Errorf("%s, %d pairs: more than 5 %% false verdicts", k.name, max)
			}
		}
	}
}

// Noise that belongs to an arm breaks the promise; the documentation says so
// with the figures logged here, and the widened interval must take back part.
func TestCalibrationDependentArmsExceed(t *testing.T) {
	for _, rho := range []float64{0.3, 0.6} {
		for _, max := range []int{15, 48} {
			bare := falseRate(t, own(rho), strict(), max)
			bare.log(t, "false verdicts, autocorrelated arms (%.1f), %d pairs, no margin", rho, max)
			usual := falseRate(t, own(rho), DefaultRule(Higher), max)
			usual.log(t, "false verdicts, autocorrelated arms (%.1f), %d pairs, 1 %% margin", rho, max)
			if bare.interval().Lo < 0.05 {
				t.Errorf("rho %v, %d pairs: no more than 5 %%; doc.go says it exceeds", rho, max)
			}
		}
	}
}

// One sweep of five arms that share a base round in each block: the chance of
// any false verdict in it.
func TestCalibrationManyArms(t *testing.T) {
	const arms, max = 5, 15
	rule := strict()
	rule.Arms = arms
	p, r, out := mustPlan(t, rule, max), rand.New(rand.NewPCG(21, 5)), rate{}
	for range *trials {
		base, any := make([]float64, max), false
		for i := range base {
			base[i] = math.Exp(sigma * r.NormFloat64())
		}
		for range arms {
			pairs := make([]Pair, max)
			for i := range pairs {
				pairs[i] = Pair{base[i], math.Exp(sigma * r.NormFloat64())}
			}
			any = any || verdict(t, p, pairs).Verdict != NeedsMore
		}
		out.add(any)
	}
	out.log(t, "any false verdict in a sweep of %d arms", arms)
	if out.interval().Center > 0.05 {
		t.Error("more than 5 % of sweeps hold a false verdict")
	}
}

// The interval at the look where the run stopped holds the true ratio, and so
// does that of a second measure that had no say in stopping.
func TestCalibrationCoverage(t *testing.T) {
	const max, effect = 20, 0.05
	p, r := mustPlan(t, DefaultRule(Higher), max), rand.New(rand.NewPCG(22, 1))
	first, second := rate{}, rate{}
	for range *trials {
		pairs := exchangeable()[0].run(r, max, effect)
		d := verdict(t, p, pairs)
		first.add(d.Ratio.Contains(1 + effect))
		other := make([]Pair, max)
		for i, q := range pairs { // follows the first measure closely
			other[i] = Pair{q.Base, q.Changed * math.Exp(0.3*sigma*r.NormFloat64())}
		}
		c, err := p.At(d.Look-1, other)
		if err != nil {
			t.Fatal(err)
		}
		second.add(c.Ratio.Contains(1 + effect))
	}
	first.log(t, "repeated interval holds the true ratio")
	second.log(t, "and for a second measure")
	if first.interval().Center < 0.95 || second.interval().Center < 0.95 {
		t.Error("a 95 % interval held the true ratio less often than that")
	}
}

func TestCalibrationPower(t *testing.T) {
	rule := DefaultRule(Higher)
	for _, effect := range []float64{0.03, 0.05, 0.10, 0.30} {
		for _, s := range []float64{0.02, 0.05, 0.15} {
			rule.Matter = effect
			max, err := rule.PairsFor(Noise{SD: s, Upper: s}, effect, 0.95)
			if err != nil {
				t.Fatal(err)
			}
			if max > 150 {
				continue
			}
			p, r := mustPlan(t, rule, max), rand.New(rand.NewPCG(23, uint64(max)))
			found, used := rate{}, 0
			for range *trials {
				pairs := make([]Pair, max)
				for i := range pairs {
					pairs[i] = Pair{1, (1 + effect) * math.Exp(s*r.NormFloat64())}
				}
				d := verdict(t, p, pairs)
				found.add(d.Verdict == Faster)
				used += d.Pairs
			}
			found.log(t, "effect %.2f, noise %.2f: %d pairs planned, %.1f used; found", effect, s, max,
				float64(used)/float64(*trials))
			if found.interval().Hi < 0.95 {
				t.Errorf("effect %v, noise %v: found in under 95 %%", effect, s)
			}
		}
	}
}

// The whole way a user goes: measure the noise from a few pairs of a run
// against itself, take the budget proposed, run it. Under noise with modes or
// wild rounds that a short pilot may miss, the power is a little under 95 %.
func TestCalibrationProposedBudget(t *testing.T) {
	rule := DefaultRule(Higher)
	rule.Matter = 0.10
	for _, pilot := range []int{6, 10} {
		for _, k := range exchangeable() {
			r := rand.New(rand.NewPCG(24, uint64(pilot)))
			found, none, planned, used, refused := rate{}, rate{}, 0, 0, 0
			for range *trials / 3 {
				noise, err := NoiseOf(k.run(r, pilot, 0))
				if err != nil {
					t.Fatal(err)
				}
				max, err := rule.PairsFor(noise, 0.10, 0.95)
				if err != nil { // a wild pilot: no budget is proposed
					refused++
					continue
				}
				p := mustPlan(t, rule, max)
				d := verdict(t, p, k.run(r, max, 0.10))
				found.add(d.Verdict == Faster)
				none.add(verdict(t, p, k.run(r, max, 0)).Verdict == NoDifference)
				planned += max
				used += d.Pairs
			}
			n := float64(found.n)
			found.log(t, "%s, noise from %d pairs: %.1f pairs planned, %.1f used, %d refused; +10 %% found",
				k.name, pilot, float64(planned)/n, float64(used)/n, refused)
			none.log(t, "    and without a change: no difference seen")
			if found.interval().Center < 0.93 || refused > *trials/100 {
				t.Errorf("%s: +10 %% found too rarely at the budget proposed", k.name)
			}
		}
	}
}

// A run that ends because its time is up, at a pair that has nothing to do
// with the figures.
func TestCalibrationClosedEarly(t *testing.T) {
	const max = 27
	p, r, out := mustPlan(t, strict(), max), rand.New(rand.NewPCG(25, 1)), rate{}
	for range *trials {
		n := MinPairs + r.IntN(max-MinPairs)
		out.add(verdict(t, p.closed(n), exchangeable()[0].run(r, n, 0)).Verdict != NeedsMore)
	}
	out.log(t, "false verdicts of runs closed early")
	if out.interval().Center > 0.05 {
		t.Error("more than 5 % false verdicts")
	}
}

// Why trimming: with wild rounds it must find clearly more than Student's t.
func TestCalibrationTrimmingPays(t *testing.T) {
	const n, effect = 27, 0.04
	r, wild := rand.New(rand.NewPCG(26, 1)), exchangeable()[4]
	cutting, plain := rate{}, rate{}
	for range *trials {
		d, err := logs(wild.run(r, n, effect))
		if err != nil {
			t.Fatal(err)
		}
		cutting.add(trim(d, cut(n)).p() < 0.05)
		plain.add(trim(d, 0).p() < 0.05)
	}
	cutting.log(t, "%s: effect found by the trimmed interval", wild.name)
	plain.log(t, "%s: effect found by the plain t interval", wild.name)
	if cutting.interval().Lo < plain.interval().Hi+0.1 {
		t.Error("trimming does not pay")
	}
}

// Warnings on clean runs must stay rare, or nobody reads them.
func TestCalibrationWarningsAreRare(t *testing.T) {
	for _, n := range []int{6, 10, 15, 27, 60} {
		r := rand.New(rand.NewPCG(27, uint64(n)))
		seen := map[Doubt]*rate{Outliers: {}, Drift: {}, Dependent: {}, TwoModes: {}, Skewed: {}}
		for range *trials / 3 {
			pairs := exchangeable()[0].run(r, n, 0)
			d, err := logs(pairs)
			if err != nil {
				t.Fatal(err)
			}
			fired := map[Doubt]bool{}
			for _, w := range warnings(pairs, d) {
				fired[w.Doubt] = true
			}
			for doubt, rate := range seen {
				rate.add(fired[doubt])
			}
		}
		for doubt, rate := range seen {
			rate.log(t, "%d clean pairs, warning %q", n, doubt)
			if rate.interval().Lo > 0.02 {
				t.Errorf("%d clean pairs: warning %q fires too often", n, doubt)
			}
		}
	}
}

// The upper limit of the noise is above the truth in about nine of ten runs,
// from pairs and from rounds alike.
func TestCalibrationNoiseUpper(t *testing.T) {
	r, truth := rand.New(rand.NewPCG(28, 1)), sigma*math.Sqrt2
	pairs, rounds := rate{}, rate{}
	for range *trials {
		p := exchangeable()[0].run(r, 8, 0)
		byPairs, err := NoiseOf(p)
		if err != nil {
			t.Fatal(err)
		}
		base, changed := halves(p)
		byRounds, err := NoiseOfRounds(append(base, changed...))
		if err != nil {
			t.Fatal(err)
		}
		pairs.add(byPairs.Upper >= truth)
		rounds.add(byRounds.Upper >= truth)
	}
	pairs.log(t, "upper limit from 8 pairs holds the noise")
	rounds.log(t, "upper limit from 16 rounds holds the noise")
	for _, r := range []rate{pairs, rounds} {
		if r.interval().Hi < 0.88 || r.interval().Lo > 0.92 {
			t.Error("the 90 % limit does not hold about 90 %")
		}
	}
}
