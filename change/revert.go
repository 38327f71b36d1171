package change

import (
	"context"
	"errors"
	"fmt"

	"headroom/fail"
	"headroom/host"
)

// Revert takes a change back, at any time, from any process. Each object must
// be as the change left it: a foreign edit stops it before anything is done,
// with a *Moved that shows the three values, unless AcceptForeign is given.
// Once begun it goes on to its end whatever signal comes.
func Revert(ctx context.Context, w host.Writer, id string, o Options) (Result, error) {
	ctx, stop := shield(ctx)
	defer stop()
	l, err := o.Journal.lock("revert " + id)
	if err != nil {
		return Result{}, err
	}
	defer l.release()
	e, err := o.Journal.Get(id)
	if err != nil {
		return Result{}, err
	}
	switch {
	case e.Phase == Reverted || e.Phase == Abandoned:
		return Result{ID: id, Phase: e.Phase, Notes: []string{"nothing to do: change " + id + " is " + string(e.Phase) + " already"}}, nil
	case e.Phase == Unreadable:
		return abandon(e, o, fmt.Errorf("revert %s: its journal cannot be read: %v", id, e.Damage))
	}
	if e.Plan.Restarts() && !o.accepts(AcceptRestart) {
		return Result{}, fail.With(fail.Hint(fmt.Errorf("revert %s: it restarts the server, which cuts every connection", id),
			"accept that with --accept restart"), fail.Usage)
	}
	if err := reach(ctx, w, e, o); err != nil {
		return abandon(e, o, fmt.Errorf("revert %s: %w", id, err))
	}
	a, err := findApart(ctx, w, e)
	if err != nil {
		return Result{}, fmt.Errorf("revert %s: %w", id, err)
	}
	a.forsake = o.accepts(AcceptLost)
	if o.accepts(AcceptForeign) {
		a.moved = nil
	}
	if len(a.rows()) > 0 {
		return Result{ID: id, Phase: e.Phase}, fail.With(movedSince(id, a), fail.Drift)
	}
	return revert(ctx, w, e, o, "asked for", a)
}

// revert takes back all but what others changed, with the lock held and
// everything checked.
func revert(ctx context.Context, w host.Writer, e Entry, o Options, why string, a apart) (Result, error) {
	l, err := o.Journal.open(e)
	if err != nil {
		return Result{}, err
	}
	defer func() { _ = l.close() }()
	r := &run{w: w, o: o, log: l, plan: e.Plan, steps: e.Plan.Steps(), later: e.applied()}
	res := Result{ID: e.ID}
	res.Phase, err = r.takeBack(ctx, why, a)
	res.Notes = r.notes
	if res.Phase == Failed {
		err = fail.With(fmt.Errorf("revert %s: %w", e.ID, err), fail.NotReverted)
	}
	return res, err
}

// abandon closes a change that cannot be taken back any more, if the user
// accepts that; else it returns why.
func abandon(e Entry, o Options, why error) (Result, error) {
	if !o.accepts(AcceptLost) {
		return Result{ID: e.ID, Phase: e.Phase}, fail.Hint(why, "if it is gone for good, close the change as it is with --accept %s", AcceptLost)
	}
	err := o.Journal.append(e.ID, Record{Type: recAbandoned, Note: why.Error()})
	return Result{ID: e.ID, Phase: Abandoned, Notes: []string{why.Error()}}, err
}

// findApart finds what somebody else changed since, and what is gone.
func findApart(ctx context.Context, r host.Reader, e Entry) (apart, error) {
	a := apart{moved: map[int][]MovedRow{}, gone: map[int][]MovedRow{}, boot: map[int]bool{}}
	for i, s := range e.Plan.Steps() {
		now, err := s.Step.Read(ctx, r)
		if errors.Is(err, fail.ErrAbsent) && (s.Step.Kind() == "value" || s.Step.Kind() == "unit") {
			a.gone[i] = movedRows(s.Step, s.Before, s.After, State{}, func(_, _, now string) bool { return now != NotSet })
			continue
		}
		if err != nil {
			return a, err
		}
		if s.Step.Kind() != "file" && s.Step.Kind() != "setting" && e.busy(i) {
			continue // done by half or not as wanted, it may be neither before nor after
		}
		if rows := foreign(s, now); len(rows) > 0 {
			a.moved[i] = rows
		}
	}
	a.passBoot(r, e)
	return a, nil
}
