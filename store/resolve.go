package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"headroom/fail"
)

// A level is one resolution.
const (
	levelRaw = iota
	levelMinute
	levelHour
	levelDay
)

var (
	levelName  = []string{"raw", "1m", "1h", "1d"}
	levelWidth = []int64{1, minuteMS, hourMS, dayMS}
)

// plan is a query made definite.
type plan struct {
	q        Query
	from, to int64 // from is on a step
	step     int64
	n        int // buckets
	level    int
	rolled   int64 // from here on there are only raw points
	rawFrom  int64 // before it there are none
	quantile float64
	rate     bool // rate or increase: what came before a bucket counts
	warnings []string
}

var funcs = []string{"avg", "min", "max", "last", "sum", "count", "rate", "increase", "p50", "p90", "p95", "p99"}

const maxPoints = 11_000

func wrongQuery(format string, args ...any) error {
	return fail.With(fmt.Errorf(format, args...), fail.Usage)
}

func (q *Query) check() error {
	if q.Func == "" {
		q.Func = "avg"
	}
	if q.Agg == "" {
		q.Agg = "sum"
	}
	if q.Points == 0 {
		q.Points = 1000
	}
	if q.Limit == 0 {
		q.Limit = 10_000
	}
	named := slices.ContainsFunc(q.Match, func(m Match) bool { return m.Label == "__name__" && (m.Op == "=" || m.Op == "=~") })
	switch {
	case !named:
		return wrongQuery("a query needs a condition on the metric's name: = or =~ on __name__")
	case !q.From.Before(q.To):
		return wrongQuery("the time from %s to %s is empty", q.From.Format(time.RFC3339), q.To.Format(time.RFC3339))
	case !slices.Contains(funcs, q.Func):
		return wrongQuery("function %q is none of %s", q.Func, strings.Join(funcs, " "))
	case !slices.Contains([]string{"sum", "avg", "min", "max", "count"}, q.Agg):
		return wrongQuery("aggregate %q is none of sum avg min max count", q.Agg)
	case q.Points < 0 || q.Points > maxPoints:
		return wrongQuery("%d points: at most %d", q.Points, maxPoints)
	case q.Step < 0 || q.Step > 0 && q.Step < time.Second:
		return wrongQuery("step %s: at least 1 s", q.Step)
	case q.Step > 0 && q.To.Sub(q.From)/q.Step > maxPoints:
		return fail.Hint(wrongQuery("step %s makes more than %d buckets", q.Step, maxPoints), "ask for a longer step or a shorter time")
	case q.Top < 0 || q.Limit < 0:
		return wrongQuery("top and limit are not negative")
	}
	return nil
}

var niceSteps = []time.Duration{time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second, 30 * time.Second,
	time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute,
	time.Hour, 2 * time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour, day, 2 * day, 7 * day, 14 * day, 28 * day}

func niceStep(whole time.Duration, points int) time.Duration {
	for _, s := range niceSteps {
		if whole/s <= time.Duration(points) {
			return s
		}
	}
	return ((whole/time.Duration(points))/day + 1) * day
}

// rawUpTo is the time up to which points are read rather than roll-ups even
// where there are both: it costs nothing and is exact.
const rawUpTo = 2 * time.Hour

// resolve chooses step and resolution: the coarsest that still gives the step,
// or a coarser one, and then a longer step, where finer data was dropped.
func (s *Store) resolve(ctx context.Context, q Query) (*plan, error) {
	if err := q.check(); err != nil {
		return nil, err
	}
	st, err := readState(ctx, s.read)
	if err != nil {
		return nil, err
	}
	if q.Step == 0 {
		q.Step = niceStep(q.To.Sub(q.From), q.Points)
	}
	p := &plan{q: q, step: q.Step.Milliseconds(), to: q.To.UnixMilli()}
	p.rate = q.Func == "rate" || q.Func == "increase"
	if q.Func[0] == 'p' {
		fmt.Sscanf(q.Func, "p%f", &p.quantile)
		p.quantile /= 100
	}
	if st.rolled != nil {
		p.rolled = st.rolled.UnixMilli()
	}
	froms := [4]int64{}
	for i, t := range []*time.Time{st.rawFrom, st.minuteFrom, st.hourFrom, st.dayFrom} {
		if t != nil {
			froms[i] = t.UnixMilli()
		}
	}
	p.rawFrom = froms[0]
	p.choose(froms)
	p.from = q.From.UnixMilli() - q.From.UnixMilli()%p.step
	p.n = int((p.to - p.from + p.step - 1) / p.step)
	return p, nil
}

func (p *plan) choose(froms [4]int64) {
	from := p.q.From.UnixMilli()
	usable := func(l int) bool { return p.quantile == 0 || l != levelMinute }
	for l := levelDay; l >= levelRaw; l-- {
		if p.step%levelWidth[l] == 0 && usable(l) {
			p.level = l
			break
		}
	}
	if p.q.To.Sub(p.q.From) <= rawUpTo {
		p.level = levelRaw
	}
	for p.level < levelDay && (from < froms[p.level] || !usable(p.level)) {
		p.level++
	}
	if p.level == levelDay && from < froms[levelDay] {
		p.warn("what is older than %s was dropped by the retention", date(froms[levelDay]))
	}
	if w := levelWidth[p.level]; p.step%w != 0 {
		was := time.Duration(p.step) * time.Millisecond
		p.step = (p.step + w - 1) / w * w
		finer := p.level - 1
		for finer > levelRaw && !usable(finer) {
			finer--
		}
		p.warn("the step is %s instead of %s: before %s nothing finer is kept", span(time.Duration(p.step)*time.Millisecond), was, date(froms[finer]))
	}
}

func (p *plan) warn(format string, args ...any) {
	p.warnings = append(p.warnings, fmt.Sprintf(format, args...))
}

func date(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.DateOnly) }
