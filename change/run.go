package change

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"headroom/crash"
	"headroom/fail"
	"headroom/host"
)

// Risks that are accepted by name (Options.Accept).
const (
	AcceptRestart = "restart"      // restart a server, which cuts every connection
	AcceptForeign = "foreign-edit" // overwrite what somebody else changed since
	AcceptLost    = "lost"         // give up what is gone: a server, a device, a journal's plan
)

// Options steers Apply, Revert, Hold, Recover, Confirm and Guard.
type Options struct {
	Journal *Journal // required
	// Accept names the risks that the user takes.
	Accept []string
	// ConfirmWithin, if not 0, has a separate process take the change back
	// unless Confirm is called in time.
	ConfirmWithin time.Duration
	// ConfirmPort is the TCP port to which a new connection must have been
	// seen before a change that may cut off is confirmed; 0 is that of WayIn.
	ConfirmPort uint16
	// ConfirmUnseen confirms without such a connection.
	ConfirmUnseen bool
	// Guard is how that process is started; the id of the change is added to
	// Argv. It must end in a call of Guard. nil: this very program with
	// "guard", in its own environment.
	Guard *host.Cmd
	// Parent names the process that applies, for a Guard that systemd started:
	// "PID:START", its number and its start from /proc/PID/stat.
	Parent string
	// Say, if given, is told in one line each what is being done.
	Say func(string)
}

func (o Options) accepts(risk string) bool { return slices.Contains(o.Accept, risk) }

func (o Options) say(format string, args ...any) {
	if o.Say != nil {
		o.Say(fmt.Sprintf(format, args...))
	}
}

// Result is what became of a change.
type Result struct {
	ID        string    // in the journal; "" if nothing was left to do
	Phase     Phase     // Applied, Awaiting, Holding, Reverted, Failed; "" if nothing was left to do
	ConfirmBy time.Time // Awaiting: when it is taken back
	// Notes are things worth telling that are no errors.
	Notes []string
	// Port is where a new connection must be seen before it is confirmed; 0: none.
	Port uint16
}

// undoLimit is how long taking a change back may take in all. It does not end
// with the caller's context: going back is what an interruption is answered with.
const undoLimit = 10 * time.Minute

// run is one change being applied or taken back, with the lock held.
type run struct {
	w     host.Writer
	o     Options
	log   *log
	plan  *Plan
	steps []PlannedStep // those with something to do
	// later says that the change was whole for a time: what follows from a
	// setting may have moved since for other reasons, and then need not come
	// back.
	later bool
	notes []string
}

// settle is how long the state may take to show after a step: a unit or a
// program takes its time, all others show at once.
func settle(s Step) time.Duration {
	switch s.Kind() {
	case "unit", "command":
		return 3 * time.Second
	}
	return 0
}

// verify reads the object again until it is as wanted; of a loose one what
// only follows from it does not count.
func verify(ctx context.Context, r host.Reader, s Step, want State, loose bool) error {
	for end := time.Now().Add(settle(s)); ; {
		now, err := s.Read(ctx, r)
		if err == nil && now.reached(want) {
			return nil
		}
		over := time.Now().After(end)
		if err == nil && over && loose && now.kept(want) {
			return nil
		}
		if err == nil {
			err = unreached(s, want, now)
		}
		if over {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// forward does those steps that belong to the confirmation, or the others,
// each journaled before it is begun and verified after. At the end they are
// verified once more, for a later step may move what an earlier one set.
func (r *run) forward(ctx context.Context, onConfirm bool) error {
	for i, s := range r.steps {
		if s.OnConfirm != onConfirm {
			continue
		}
		crash.At("change.step-before-journal")
		if err := r.log.add(Record{Type: recStarted, Step: i}); err != nil {
			return err
		}
		crash.At("change.step-journaled")
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		r.o.say("%s", s.Step)
		if err := s.Step.Apply(ctx, r.w); err != nil {
			return err
		}
		crash.At("change.step-applied")
		if err := verify(ctx, r.w, s.Step, s.After, false); err != nil {
			return err
		}
		crash.At("change.step-verified")
		if err := r.log.add(Record{Type: recDone, Step: i}); err != nil {
			return err
		}
		crash.At("change.step-recorded")
	}
	for _, s := range r.steps {
		if s.OnConfirm != onConfirm {
			continue
		}
		if err := verify(ctx, r.w, s.Step, s.After, false); err != nil {
			return fmt.Errorf("after the last step: %w", err)
		}
	}
	return ctx.Err()
}

// passes is how often going back is tried: putting one object back can move
// another (a new I/O scheduler resets its queue's other values).
const passes = 3

// back takes all steps back in reverse order, apart from those in leave, and
// verifies each. It is safe to repeat. Failures of one step do not keep the
// others from being taken back.
func (r *run) back(ctx context.Context, leave map[int]bool) error {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), undoLimit)
	defer stop()
	var errs []error
	undone := map[int]bool{}
	for range passes {
		errs = nil
		moved := false
		for i := len(r.steps) - 1; i >= 0; i-- {
			if leave[i] {
				continue
			}
			did, err := r.backOne(ctx, r.steps[i], undone[i])
			undone[i] = undone[i] || did
			moved = moved || did
			if err != nil {
				errs = append(errs, err)
			}
		}
		if !moved && len(errs) == 0 {
			return nil
		}
	}
	for i, s := range r.steps {
		if !leave[i] && errors.Join(errs...) == nil {
			errs = append(errs, verify(ctx, r.w, s.Step, s.Before, r.later))
		}
	}
	return errors.Join(errs...)
}

// backOne takes one step back if it is not so already; did says whether
// anything was to be done. again says that it was taken back before.
func (r *run) backOne(ctx context.Context, s PlannedStep, again bool) (did bool, err error) {
	now, err := s.Step.Read(ctx, r.w)
	if err == nil && (now.reached(s.Before) || again && r.later && now.kept(s.Before)) {
		undo, ok := s.Undo.(Setting)
		if !now.guessed || !ok || again {
			return false, nil
		}
		r.o.say("taking back what may be stored: %s", s.Undo)
		if err := undo.drop(ctx, r.w); err != nil {
			return true, fmt.Errorf("take back %s: %w", s.Step.Object(), err)
		}
		return true, nil
	}
	crash.At("change.undo-before")
	r.o.say("taking back: %s", s.Undo)
	if err := s.Undo.Apply(ctx, r.w); err != nil {
		if err := r.rescue(ctx, s, err); err != nil {
			return true, fmt.Errorf("take back %s: %w", s.Step.Object(), err)
		}
	}
	crash.At("change.undo-done")
	if err := verify(ctx, r.w, s.Step, s.Before, r.later); err != nil {
		return true, fmt.Errorf("take back %s: %w", s.Step.Object(), err)
	}
	if now, err := s.Step.Read(ctx, r.w); err == nil && !now.reached(s.Before) && !again {
		r.notes = append(r.notes, fmt.Sprintf("%s is stored as before; what is in force moved for other reasons since: %v",
			s.Step.Object(), unreached(s.Step, s.Before, now)))
	}
	return true, nil
}

// apart is what is left as it is when a change is taken back.
type apart struct {
	moved map[int][]MovedRow // steps whose object somebody else changed since
	gone  map[int][]MovedRow // steps whose object is not there any more
	boot  map[int]bool       // steps whose object was made anew when the machine started
	// forsake says that the user gives up what is gone.
	forsake bool
}

// rows are those that keep the change from being settled.
func (a apart) rows() []MovedRow {
	all := maps.Clone(a.moved)
	if !a.forsake {
		all = maps.Clone(a.gone)
		maps.Copy(all, a.moved)
	}
	var out []MovedRow
	for _, i := range slices.Sorted(maps.Keys(all)) {
		out = append(out, all[i]...)
	}
	return out
}

// takeBack journals and does the way back, apart from what somebody else
// changed since and what is gone. The phase is Reverted if all is as before,
// whether or not that could be written down.
func (r *run) takeBack(ctx context.Context, why string, a apart) (Phase, error) {
	crash.At("change.revert-before-journal")
	// A journal that cannot be written does not keep us from going back: the
	// next Recover sees the state itself.
	jerr := r.log.add(Record{Type: recReverting, Note: why})
	crash.At("change.revert-journaled")
	leave := map[int]bool{}
	for _, m := range []map[int][]MovedRow{a.moved, a.gone} {
		for i := range m {
			leave[i] = true
		}
	}
	for i := range a.boot {
		leave[i] = true
		r.notes = append(r.notes, r.steps[i].Step.Object()+" is left as it was loaded when the machine started")
	}
	err := r.back(ctx, leave)
	if len(a.rows()) > 0 {
		err = errors.Join(err, movedSince(r.log.id, a))
	}
	if err != nil {
		err = fail.Hint(err, "set right what is named, then: headroom revert %s", r.log.id)
		return Failed, errors.Join(err, r.log.add(Record{Type: recFailed, Note: err.Error()}))
	}
	crash.At("change.revert-before-record")
	phase, last := Reverted, Record{Type: recReverted, Note: why}
	if len(a.gone) > 0 {
		phase, last.Type = Abandoned, recAbandoned
	}
	if jerr == nil {
		jerr = r.log.add(last)
	}
	crash.At("change.revert-recorded")
	return phase, jerr
}

// movedSince is the error that shows what somebody else changed.
func movedSince(id string, a apart) error {
	m := &Moved{Verb: "revert " + id, Titles: [3]string{"before", "set by the change", titleNow}, Rows: a.rows()}
	if len(a.moved) == 0 {
		return fail.Hint(m, "what is gone can be given up: headroom revert %s --accept %s", id, AcceptLost)
	}
	return fail.Hint(m, "somebody else changed it since; overwrite that with: headroom revert %s --accept %s", id, AcceptForeign)
}
