package change

import (
	"context"
	"fmt"
	"time"

	"headroom/crash"
	"headroom/fail"
	"headroom/host"
)

// Confirm keeps a change that was applied with ConfirmWithin, and does the
// steps that were left for then. Too late is an error: it is being taken back
// then. So is, of a change that may cut off, a start of the machine in between:
// its rules are gone. Such a change also wants a new connection from outside to
// have been seen since, or ConfirmUnseen; without, it stays as it is. If a
// step fails or is interrupted, all is taken back, as Apply does.
func Confirm(ctx context.Context, w host.Writer, id string, o Options) (Result, error) {
	ctx, done := shield(ctx)
	defer done()
	wait, stop := context.WithTimeout(ctx, 5*time.Second)
	defer stop()
	l, err := o.Journal.await(wait, "confirm "+id)
	if err != nil {
		return Result{}, err
	}
	defer l.release()
	e, err := o.Journal.Get(id)
	if err != nil {
		return Result{}, err
	}
	switch {
	case e.Phase == Applied:
		return Result{ID: id, Phase: Applied, Notes: []string{"nothing to do: change " + id + " is confirmed already"}}, nil
	case e.Phase != Awaiting:
		return Result{}, fmt.Errorf("confirm %s: it does not wait for it: it is %s", id, e.Phase)
	case time.Now().After(e.ConfirmBy):
		return Result{}, fail.Hint(fmt.Errorf("confirm %s: too late, it is taken back since %s", id, e.ConfirmBy.Format(time.RFC3339)), "apply it again")
	}
	if e.Plan.CutsOff() && e.restarted(w) {
		return Result{ID: id, Phase: Awaiting}, fail.Hint(fmt.Errorf("confirm %s: the machine was started anew since, with the rules that it loads at boot: what was applied is not in force", id),
			"close it with `headroom revert %s`, then plan and apply again", id)
	}
	note, err := o.Journal.cameIn(e, o.ConfirmUnseen)
	if err != nil {
		return Result{ID: id, Phase: Awaiting}, err
	}
	res := Result{ID: id, Phase: Applied}
	if note != "" {
		res.Notes = []string{note}
	}
	return confirmLocked(ctx, w, e, o, res, note)
}

func confirmLocked(ctx context.Context, w host.Writer, e Entry, o Options, res Result, note string) (Result, error) {
	if err := stillBefore(ctx, w, e); err != nil {
		return Result{ID: e.ID, Phase: Awaiting}, err
	}
	log, err := o.Journal.open(e)
	if err != nil {
		return Result{}, err
	}
	defer func() { _ = log.close() }() // every record was synced on its own
	r := &run{w: w, o: o, log: log, plan: e.Plan, steps: e.Plan.Steps(), later: true}
	if err = r.forward(ctx, true); err != nil {
		res.Phase, err = r.failed(ctx, fmt.Errorf("confirm %s: %w", e.ID, err))
		return res, err
	}
	crash.At("change.confirm-before-record")
	if err := r.log.add(Record{Type: recConfirmed, Note: note}); err != nil {
		return Result{}, err
	}
	crash.At("change.confirm-recorded")
	return res, nil
}

// stillBefore makes sure that what is done on confirmation is as it was
// planned from. Nothing is done if it is not.
func stillBefore(ctx context.Context, r host.Reader, e Entry) error {
	m := &Moved{Verb: "confirm " + e.ID, Titles: [3]string{"planned from", titleNow, "wanted"}}
	for _, s := range e.Plan.Steps() {
		if !s.OnConfirm {
			continue
		}
		now, err := s.Step.Read(ctx, r)
		if err != nil {
			return fmt.Errorf("confirm %s: %w", e.ID, err)
		}
		if !now.kept(s.Before) && !now.kept(s.After) {
			m.Rows = append(m.Rows, movedRows(s.Step, s.Before, now, s.After, func(a, b, _ string) bool { return a != b })...)
		}
	}
	if len(m.Rows) == 0 {
		return nil
	}
	return fail.With(fail.Hint(m, "it stays unconfirmed: put that back and confirm again, or plan again with it as it is"), fail.Drift)
}
