package agent

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"headroom/fail"
	"headroom/host"
	"headroom/metric"
	"headroom/topic/own"
)

// group is collectors of one target that run one after the other.
type group struct {
	s    *slot
	jobs []*job

	mu    sync.Mutex
	busy  bool
	pause time.Duration // after a login that was refused
	until time.Time     // no try before, by the monotonic clock
}

// job is one collector of one target.
type job struct {
	c      *metric.Collector
	mem    *metric.Memory
	last   int64 // which interval since 1970 the last round was for
	gaps   []metric.Gap
	report own.Report
}

func (j *job) every() time.Duration {
	if j.c.Every == 0 {
		return roundEvery
	}
	return j.c.Every
}

// due lists the jobs whose interval has come, and those that run because
// somebody looks, and marks the group busy if there are any. A group that is
// still busy has its rounds counted as skipped: they never pile up.
func (g *group) due(at time.Time, looking bool) (due, quick []*job) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if time.Now().Before(g.until) {
		return nil, nil
	}
	for _, j := range g.jobs {
		n := at.UnixMilli() / j.every().Milliseconds()
		switch {
		case n != j.last:
			j.last = n
			due = append(due, j)
		case looking && j.c.Fast:
			quick = append(quick, j)
		}
	}
	if !g.busy {
		g.busy = len(due)+len(quick) > 0
		return due, quick
	}
	g.s.mu.Lock()
	defer g.s.mu.Unlock()
	for _, j := range due {
		j.report.Skipped++
	}
	return nil, nil
}

func (g *group) free() {
	g.mu.Lock()
	g.busy = false
	g.mu.Unlock()
}

// work runs jobs one after the other; once the server cannot be reached or
// does not answer, the rest are given up for the same reason.
func (g *group) work(ctx context.Context, at time.Time, jobs []*job, b *bundle) {
	var hung <-chan result
	for i, j := range jobs {
		var res result
		res, hung = g.try(ctx, j, at)
		if ctx.Err() != nil && res.err != nil {
			break // we end: that is no fault of the source
		}
		b.add(res.rows)
		g.note(j, res)
		if errors.Is(res.err, host.ErrConnect) || errors.Is(res.err, context.DeadlineExceeded) {
			for _, rest := range jobs[i+1:] {
				g.note(rest, result{err: res.err})
			}
			break
		}
	}
	b.done()
	if hung != nil {
		<-hung // busy until it comes back
	}
}

// result is what one round of one collector brought.
type result struct {
	rows []metric.Row
	gaps []metric.Gap
	err  error
	took time.Duration
}

// graceful is how long after its deadline a collector may still come back.
const graceful = 500 * time.Millisecond

// try runs one job within its deadline. If it does not come back, hung is
// where it will answer.
func (g *group) try(ctx context.Context, j *job, at time.Time) (res result, hung <-chan result) {
	limit := j.c.Deadline
	if limit == 0 {
		limit = deadline
	}
	limited, stop := context.WithTimeout(ctx, limit)
	defer stop()
	answer := make(chan result, 1)
	go func() { answer <- g.collect(limited, j, at) }()
	select {
	case res = <-answer:
	case <-limited.Done():
		select {
		case res = <-answer:
		case <-time.After(graceful):
			res, hung = result{err: context.DeadlineExceeded, took: limit}, answer
		}
	}
	if errors.Is(res.err, context.DeadlineExceeded) {
		res.err = fmt.Errorf("no answer within %s: %w", limit, context.DeadlineExceeded)
	}
	return res, hung
}

// collect runs the collector; a panic is its fault and costs its round only.
func (g *group) collect(ctx context.Context, j *job, at time.Time) (res result) {
	begin := time.Now()
	common := []metric.Label{{Name: "host", Value: g.s.r.opt.Host}, {Name: "server", Value: j.report.Server}}
	out := metric.NewOut(j.c, at, common...)
	out.Memory = j.mem
	defer func() {
		if p := recover(); p != nil {
			res.err = fmt.Errorf("BUG in collector %s: %v\n%s", j.c.Name, p, debug.Stack())
			j.mem = g.s.r.memory(j.c.Name, j.report.Server)
		}
		res.took = time.Since(begin)
	}()
	var r host.Reader = g.s.r.opt.Reader
	if g.s.link != nil {
		r = g.s.link
	}
	if res.err = j.c.Collect(ctx, r, out); res.err == nil {
		res.rows, res.err = out.Rows, out.Err()
	}
	res.gaps = out.Gaps
	return res
}

// note keeps how a round went.
func (g *group) note(j *job, res result) {
	g.s.mu.Lock()
	j.gaps = nil
	for _, gap := range res.gaps {
		j.gaps = append(j.gaps, g.full(j, gap))
	}
	if res.err != nil {
		j.gaps = []metric.Gap{g.full(j, metric.Gap{Because: res.err.Error(), Hint: fail.HintOf(res.err)})}
	}
	j.report.Took, j.report.OK, j.report.Gaps = res.took, res.err == nil, len(j.gaps)
	j.report.Rounds++
	g.s.mu.Unlock()
	g.rest(res.err)
}

// full completes a gap: the server, and all metrics where none is named.
func (g *group) full(j *job, gap metric.Gap) metric.Gap {
	gap.Collector, gap.Server = j.c.Name, j.report.Server
	if len(gap.Metrics) == 0 {
		for _, d := range j.c.Defs {
			gap.Metrics = append(gap.Metrics, d.Name)
		}
	}
	return gap
}

// rest leaves a server alone for longer and longer after it refused a login:
// each try is a line in its log.
func (g *group) rest(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !loginRefused(err) {
		if err == nil {
			g.pause = 0
		}
		return
	}
	if time.Now().Before(g.until) {
		return // said of the round's other jobs
	}
	g.pause = min(max(2*g.pause, roundEvery), loginEvery)
	g.until = time.Now().Add(g.pause - time.Second)
}

// loginRefused says whether a server refused us, rather than being away.
func loginRefused(err error) bool {
	var pe *pgconn.PgError
	if !errors.Is(err, host.ErrConnect) || !errors.As(err, &pe) {
		return false
	}
	return pe.Code[:2] == "28" || pe.Code == "3D000" || pe.Code == "42501" || pe.Code == "08P01"
}
