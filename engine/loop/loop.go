// Package loop drives a workload: so many clients, closed loop or at a rate,
// for a time or a number of transactions, and it keeps the count of everything.
package loop

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// Work runs one transaction for one client, and returns how many units it did
// (rows, requests; usually 1). A *Failure counts as a failed transaction; any
// other error ends the run. Calls of different clients run at the same time,
// each client on a thread of its own. When ctx ends, Work must return soon,
// with any error.
type Work func(ctx context.Context, client int) (units int, err error)

// Failure says that a transaction failed in a way that is counted and not the
// end of the run.
type Failure struct {
	Code string // what it is counted under, such as a SQLSTATE
	Err  error
}

func (f *Failure) Error() string { return f.Err.Error() }
func (f *Failure) Unwrap() error { return f.Err }

// Options steers Run. Duration or Transactions must be given; with both, what
// comes first ends the run.
type Options struct {
	Clients      int           // at least 1
	Duration     time.Duration // no transaction begins after it
	Transactions int64         // per client; 0 = no limit

	Rate  float64       // transactions per second over all clients; 0 = closed loop
	Even  bool          // due at equal distances; else at random ones (Poisson)
	Limit time.Duration // with Rate: what would begin later than this after its due time is skipped; 0 = never
	Seed  uint64        // of the random due times

	// Throttle, 0 up to but not with 1, lowers the rate by that fraction, to
	// calibrate with a known effect. In a closed loop all clients rest together
	// after each 50 ms for their share of the time they worked: a rest of one
	// client alone would only leave the machine to the others.
	Throttle float64

	// Shared says that Work waits nowhere but through Waiter. Where there are
	// more clients than half the CPUs, several then share a thread, as those
	// of pgbench do with -j; with threads of their own each answer would wake
	// one up.
	Shared bool
}

func (o Options) check() error {
	switch {
	case o.Clients < 1:
		return fmt.Errorf("%d clients: at least 1 is needed", o.Clients)
	case o.Duration < 0 || o.Transactions < 0 || o.Duration == 0 && o.Transactions == 0:
		return errors.New("neither a duration nor a number of transactions")
	case !(o.Rate >= 0 && o.Rate <= 1e9):
		return fmt.Errorf("a rate of %g per second: it goes from 0 to 1e9", o.Rate)
	case !(o.Throttle >= 0 && o.Throttle < 1):
		return fmt.Errorf("a throttle of %g: it goes from 0 to below 1", o.Throttle)
	case o.Limit < 0 || o.Limit > 0 && o.Rate == 0:
		return errors.New("a latency limit needs a rate")
	}
	return nil
}

const maxPlaces = 256

// Run runs work until its end, or until ctx ends; then it returns what was
// done so far with the cause. While it runs, GOMAXPROCS is raised to one more
// than the clients (256 at most).
func Run(ctx context.Context, o Options, work Work) (*Result, error) {
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("run workload: %w", err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r := &run{Options: o, work: work, cancel: cancel}
	defer context.AfterFunc(ctx, func() { r.stop.Store(true) })()
	if o.Rate > 0 {
		r.plan = newSchedule(o.Rate*(1-o.Throttle), o.Even, o.Seed)
	}
	// A thread that waits in a system call keeps its place to run Go code until
	// the runtime takes it back, up to 10 ms later; so each client gets a place
	// of its own. Measured: 8-10 % more transactions, half the p99 at 16 clients.
	if n := min(o.Clients+1, maxPlaces); runtime.GOMAXPROCS(0) < n {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(n))
	}
	parts := make([]*client, o.Clients)
	for i := range parts {
		parts[i] = &client{run: r, id: i, res: newResult()}
	}
	var all sync.WaitGroup
	ready, begin := sync.WaitGroup{}, make(chan struct{})
	for _, group := range o.threads(parts) {
		ready.Add(1)
		all.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			ready.Done()
			<-begin
			if len(group) == 1 {
				group[0].loop(ctx)
			} else {
				r.share(ctx, group)
			}
		})
	}
	ready.Wait()
	r.start = time.Now()
	close(begin)
	all.Wait()
	res := r.sum(parts)
	if err := context.Cause(ctx); err != nil {
		return res, fmt.Errorf("run workload: %w", err)
	}
	return res, nil
}

// threads deals the clients out: one to a thread, or, where they may share,
// evenly to a thread for every second CPU and at least two: the other half of
// the CPUs is for those who answer.
func (o Options) threads(clients []*client) [][]*client {
	n := len(clients)
	if o.Shared {
		cpus := runtime.NumCPU()
		n = min(n, max(cpus/2, min(cpus, 2)))
	}
	out := make([][]*client, n)
	for i, c := range clients {
		out[i%n] = append(out[i%n], c)
	}
	return out
}

type run struct {
	Options
	work   Work
	plan   *schedule // nil in a closed loop
	cancel context.CancelCauseFunc
	stop   atomic.Bool
	start  time.Time
}

type client struct {
	*run
	id     int
	res    *Result
	worked time.Duration    // since the last rest
	rest   int64            // number of the last rest's period
	yield  func(event) bool // nil if the client has a thread of its own
}

func (c *client) loop(ctx context.Context) {
	now := time.Duration(0)
	for n := int64(0); c.Transactions == 0 || n < c.Transactions; {
		if c.stop.Load() || c.over(now) {
			break
		}
		due := now
		if c.plan != nil {
			var ok bool
			if due, ok = c.await(); !ok {
				break
			}
			n++
			c.res.All++
			now = time.Since(c.start)
			if c.Limit > 0 && now-due > c.Limit {
				c.res.Skipped++
				continue
			}
		} else {
			n++
			c.res.All++
		}
		units, err := c.work(ctx, c.id)
		end := time.Since(c.start)
		if c.stop.Load() || err != nil && ctx.Err() != nil { // cut off in the middle: it does not count
			c.res.All--
			break
		}
		if !c.settle(units, err, end-due) {
			break
		}
		c.worked += end - now
		now = c.pause(end)
	}
	c.finish()
}

func (c *client) over(now time.Duration) bool { return c.Duration > 0 && now >= c.Duration }

// await takes the next due time and waits for it; false if none is left.
func (c *client) await() (due time.Duration, ok bool) {
	due, ok = c.plan.next(c.Duration)
	if !ok {
		return 0, false
	}
	c.sleepUntil(due)
	return due, !c.stop.Load()
}

// settle counts how a transaction ended; false ends the run.
func (c *client) settle(units int, err error, took time.Duration) bool {
	if err == nil {
		c.res.Done++
		c.res.Units += int64(units)
		c.res.record(took)
		return true
	}
	var f *Failure
	if !errors.As(err, &f) {
		c.res.All--
		c.cancel(fmt.Errorf("client %d: %w", c.id, err))
		return false
	}
	c.res.fail(f)
	return true
}

// finish rests what is owed and notes how long the client was at it.
func (c *client) finish() {
	now := time.Since(c.start)
	if c.plan == nil {
		c.sleepUntil(now + c.owed())
	} else if !c.stop.Load() && c.Transactions == 0 {
		c.sleepUntil(c.Duration)
	}
	c.res.Seconds = time.Since(c.start).Seconds()
}
