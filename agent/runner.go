package agent

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"headroom/metric"
	"headroom/topic/own"
)

// Runner runs collectors on targets. Make it with New, start it with Run.
type Runner struct {
	opt  Options
	lost atomic.Int64 // batches that Sink did not take

	mu    sync.Mutex
	slots map[string]*slot
	until time.Time     // somebody looks until then
	wake  chan struct{} // closed when somebody begins to look
	busy  sync.WaitGroup
}

// New returns a runner that has not begun.
func New(o Options) *Runner {
	if o.Now == nil {
		o.Now = o.Reader.Now
	}
	if o.Open == nil {
		o.Open = openLocal
	}
	if o.Final == nil {
		o.Final = func(error) bool { return false }
	}
	return &Runner{opt: o, slots: map[string]*slot{}, wake: make(chan struct{})}
}

// Run collects until the context ends; it returns nil then. The first rounds
// begin at once, the later ones at multiples of their interval.
func (r *Runner) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(own.WithReports(ctx, r.reports, r.lost.Load))
	defer stop()
	r.add(ctx, Target{Kind: metric.Host, Found: "this machine"})
	r.find(ctx)
	again := time.NewTicker(findEvery)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			r.end()
			return nil
		case <-again.C:
			r.find(ctx)
		}
	}
}

// end waits for rounds under way, but not for those that hang.
func (r *Runner) end() {
	ended := make(chan struct{})
	go func() {
		r.busy.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(stopWait):
	}
}

// find looks for targets, without holding up the rounds.
func (r *Runner) find(ctx context.Context) {
	if r.opt.Find == nil {
		return
	}
	r.busy.Go(func() {
		limited, stop := context.WithTimeout(ctx, findEvery/2)
		defer stop()
		found := r.opt.Find(limited)
		if limited.Err() == nil {
			r.merge(ctx, found)
		}
	})
}

// merge makes the slots fit what was found: new ones begin, ones that are not
// found any more stay as a gap for a day.
func (r *Runner) merge(ctx context.Context, found []Target) {
	seen := map[string]bool{}
	known := map[string]bool{}
	for _, t := range found {
		seen[t.key()] = true
		for _, key := range t.also {
			known[key] = true
		}
		r.add(ctx, t)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, s := range r.slots {
		if s.kind == metric.Host || seen[key] {
			continue
		}
		if known[key] { // not gone: it is another name of one that is there
			s.cancel()
			delete(r.slots, key)
			continue
		}
		switch away := s.gone(r.opt.Now()); {
		case away > goneFor || len(r.slots) > 2*maxTargets:
			s.cancel()
			delete(r.slots, key)
		case away > restAfter && s.is().Missing == "":
			t := s.is()
			t.Missing = "it was there by " + t.Found
			s.cancel()
			r.begin(ctx, t)
		}
	}
}

// add begins a slot for a target, or tells the one that it has what is new.
func (r *Runner) add(ctx context.Context, t Target) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s, ok := r.slots[t.key()]; ok {
		if s.retarget(t) {
			return
		}
		s.cancel()
	}
	r.begin(ctx, t)
}

// begin begins a slot, in the place of the one that the target has. r.mu is
// held.
func (r *Runner) begin(ctx context.Context, t Target) {
	s := newSlot(r, t)
	if len(s.groups) == 0 {
		return
	}
	r.slots[t.key()] = s
	ctx, s.cancel = context.WithCancel(ctx)
	r.busy.Go(func() { s.run(ctx) })
}

// Look says that somebody looks until a time by the real clock: until then the
// collectors that are cheap enough run each second, and Live takes what they
// read. A time that is not to come says that nobody looks any more; the last
// word counts.
func (r *Runner) Look(until time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	began := !time.Now().Before(r.until)
	r.until = until
	if began {
		close(r.wake)
		r.wake = make(chan struct{})
	}
}

// looks says whether somebody looks now, and what is closed when that begins.
func (r *Runner) looks() (bool, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Now().Before(r.until), r.wake
}

// Targets lists what is looked at, the machine first.
func (r *Runner) Targets() []Target {
	var out []Target
	for _, s := range r.all() {
		out = append(out, s.is())
	}
	return out
}

// Gaps lists what cannot be read now, with the reasons: by server, collector.
func (r *Runner) Gaps() []metric.Gap {
	out := []metric.Gap{}
	for _, s := range r.all() {
		out = append(out, s.gaps()...)
	}
	return out
}

func (r *Runner) reports() []own.Report {
	var out []own.Report
	for _, s := range r.all() {
		out = append(out, s.reports()...)
	}
	return out
}

// all lists the slots by name, the machine first.
func (r *Runner) all() []*slot {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []*slot
	for _, s := range r.slots {
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b *slot) int {
		if a.kind == metric.Host || b.kind == metric.Host {
			return cmp.Compare(b2i(b.kind == metric.Host), b2i(a.kind == metric.Host))
		}
		return cmp.Compare(a.key, b.key)
	})
	return out
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}
