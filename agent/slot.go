package agent

import (
	"context"
	"sync"
	"time"

	"headroom/metric"
	"headroom/topic/own"
)

// slot runs one target's collectors. Those of the machine run beside each
// other, as one of them may hang; those of a server one after the other, on
// one connection.
type slot struct {
	r      *Runner
	kind   metric.Target
	key    string
	link   Link // nil while something is missing, and for the machine itself
	groups []*group
	ticks  ticks
	send   chan *metric.Batch
	cancel context.CancelFunc
	busy   sync.WaitGroup // groups at work

	mu     sync.Mutex // guards target, and reports and gaps of the jobs
	target Target
}

// sendRoom is how many batches of a target may wait for Sink.
const sendRoom = 6

func newSlot(r *Runner, t Target) *slot {
	s := &slot{r: r, kind: t.Kind, key: t.key(), target: t, ticks: ticks{now: r.opt.Now}, send: make(chan *metric.Batch, sendRoom)}
	var jobs []*job
	for _, c := range r.opt.Collectors {
		if c.Of == t.Kind {
			jobs = append(jobs, &job{c: c, mem: r.memory(c.Name, t.Name), report: own.Report{Collector: c.Name, Server: t.Name}})
		}
	}
	if t.Kind != metric.Host {
		if len(jobs) > 0 {
			s.groups = []*group{{s: s, jobs: jobs}}
		}
		return s
	}
	for _, j := range jobs {
		s.groups = append(s.groups, &group{s: s, jobs: []*job{j}})
	}
	return s
}

// memory is that of a collector which begins.
func (r *Runner) memory(collector, server string) *metric.Memory {
	if r.opt.Keep == nil {
		return &metric.Memory{}
	}
	return &metric.Memory{Keep: r.opt.Keep(collector, server)}
}

// run does the rounds until the context ends.
func (s *slot) run(ctx context.Context) {
	if t := s.is(); t.Missing == "" && s.kind != metric.Host {
		s.link = s.r.opt.Open(t)
		defer s.link.Close()
	}
	var sender sync.WaitGroup
	sender.Go(func() { s.sender(ctx) })
	defer sender.Wait()
	defer close(s.send)
	defer s.busy.Wait()
	at := s.ticks.settle(s.r.opt.Now().Truncate(time.Second), roundEvery)
	for {
		looking, began := s.r.looks()
		s.round(ctx, at, looking)
		every := roundEvery
		if looking && s.fast() {
			every = liveEvery
		}
		planned, wait := s.ticks.next(every)
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-began:
			timer.Stop()
			at = s.ticks.settle(s.r.opt.Now().Truncate(liveEvery), liveEvery)
		case <-timer.C:
			at = s.ticks.settle(planned, every)
		}
	}
}

func (s *slot) fast() bool {
	for _, g := range s.groups {
		for _, j := range g.jobs {
			if j.c.Fast {
				return true
			}
		}
	}
	return false
}

// round starts whatever is due at a time, and does not wait for it.
func (s *slot) round(ctx context.Context, at time.Time, looking bool) {
	if s.is().Missing != "" {
		return
	}
	full := &bundle{send: s.offer}
	live := &bundle{send: s.live}
	var todo []func()
	for _, g := range s.groups {
		due, quick := g.due(at, looking)
		if len(due)+len(quick) == 0 {
			continue
		}
		full.pending++
		live.pending++
		todo = append(todo, func() {
			g.work(ctx, at, due, full)
			g.work(ctx, at, quick, live)
			g.free()
		})
	}
	if full.pending > 1 {
		full.timer = time.AfterFunc(linger, full.flush)
		live.timer = time.AfterFunc(linger, live.flush)
	}
	for _, f := range todo {
		s.busy.Go(f)
	}
}

// batch makes a batch of rows.
func (s *slot) batch(rows []metric.Row) *metric.Batch {
	return &metric.Batch{ID: metric.NewID(), Origin: s.r.opt.Host, Rows: rows}
}

func (s *slot) live(rows []metric.Row) {
	if s.r.opt.Live != nil {
		s.r.opt.Live(s.batch(rows))
	}
}

// offer puts rows in line for Sink; if the line is full, what is new is given
// up and counted.
func (s *slot) offer(rows []metric.Row) {
	for _, b := range s.batch(rows).Split() {
		select {
		case s.send <- b:
		default:
			s.r.lost.Add(1)
		}
	}
}

// sender brings batches to Sink, one after the other; what the last round
// brought is still taken when the context has ended.
func (s *slot) sender(ctx context.Context) {
	for b := range s.send {
		if !s.bring(ctx, b) {
			s.r.lost.Add(1)
		}
	}
}

func (s *slot) bring(ctx context.Context, b *metric.Batch) bool {
	last, stop := context.WithTimeout(context.WithoutCancel(ctx), roundEvery)
	defer stop()
	for pause := time.Second; ; pause *= 2 {
		err := s.r.opt.Sink(last, b)
		if err == nil {
			return true
		}
		if s.r.opt.Final(err) {
			return false
		}
		select {
		case <-last.Done():
			return false
		case <-ctx.Done():
			return s.r.opt.Sink(last, b) == nil
		case <-time.After(pause):
		}
	}
}
