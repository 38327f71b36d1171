package lab

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"
)

// Turn is one arm's turn in one round.
type Turn struct {
	*Stand
	Round int    // from 0; the warm-up is round -1
	Seed  uint64 // the same for all arms of a round

	seconds float64
	units   int64
	walLog  int64
	figures map[string]float64
	same    map[string]string
}

// Time runs the timed part, which returns how much it did (rows, calls). Just
// before, the server writes a checkpoint and garbage is collected, so that
// each turn starts from the same state; neither is timed. May be called more
// than once: times and work are summed.
func (t *Turn) Time(ctx context.Context, work func(context.Context) (units int64, err error)) error {
	if err := t.settle(ctx); err != nil {
		return err
	}
	from, err := t.wal(ctx)
	if err != nil {
		return err
	}
	runtime.GC()
	start := time.Now()
	units, err := work(ctx)
	t.seconds += time.Since(start).Seconds()
	if err != nil {
		return err
	}
	to, err := t.wal(ctx)
	t.units, t.walLog = t.units+units, t.walLog+to-from
	return err
}

// PerSecond is the work done per second by the timed part so far; 0 before it.
func (t *Turn) PerSecond() float64 {
	if t.seconds <= 0 {
		return 0
	}
	return float64(t.units) / t.seconds
}

// Figure gives a figure of one of the lab's measures, in its base unit.
func (t *Turn) Figure(measure string, v float64) { t.figures[measure] = v }

// Same states something that all arms must agree on within a round, such as
// the number of rows: an arm that does not ends the lab, because it did other
// work than the rest.
func (t *Turn) Same(what string, v any) { t.same[what] = fmt.Sprint(v) }

// take runs the arm and files the turn.
func (a Arm) take(ctx context.Context, t *Turn) error {
	t.figures, t.same = map[string]float64{}, map[string]string{}
	if err := a.Run(ctx, t); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return fmt.Errorf("run arm %q: %w", a.Name, err)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if t.seconds > 0 {
		t.figures[Seconds.Name] = t.seconds
		if t.units > 0 {
			t.figures["rate"] = t.PerSecond()
			if t.control != nil {
				t.figures[WAL.Name] = float64(t.walLog) / float64(t.units)
			}
		}
	}
	if len(t.figures) == 0 {
		return fmt.Errorf("run arm %q: %w", a.Name, errors.New("it timed nothing"))
	}
	return nil
}
