package change

import (
	"context"
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
	others, err := foreignRows(ctx, w, e)
	if err != nil {
		return Result{}, fmt.Errorf("revert %s: %w", id, err)
	}
	if len(others) > 0 && !o.accepts(AcceptForeign) {
		return Result{ID: id, Phase: e.Phase}, fail.With(movedSince(id, others), fail.Drift)
	}
	return revert(ctx, w, e, o, "asked for", nil)
}

// revert takes back all but what others changed, with the lock held and
// everything checked.
func revert(ctx context.Context, w host.Writer, e Entry, o Options, why string, others map[int][]MovedRow) (Result, error) {
	l, err := o.Journal.open(e)
	if err != nil {
		return Result{}, err
	}
	defer func() { _ = l.close() }()
	r := &run{w: w, o: o, log: l, plan: e.Plan, steps: e.Plan.Steps(), later: e.applied()}
	res := Result{ID: e.ID}
	res.Phase, err = r.takeBack(ctx, why, others)
	res.Notes = r.notes
	if res.Phase != Reverted {
		err = fail.With(fmt.Errorf("revert %s: %w", e.ID, err), fail.NotReverted)
	}
	return res, err
}

// abandon closes a change that cannot be taken back any more, if the user
// accepts that; else it returns why.
func abandon(e Entry, o Options, why error) (Result, error) {
	if !o.accepts(AcceptLostServer) {
		return Result{ID: e.ID, Phase: e.Phase}, fail.Hint(why, "if it is gone for good, close the change as it is with --accept %s", AcceptLostServer)
	}
	err := o.Journal.append(e.ID, Record{Type: recAbandoned, Note: why.Error()})
	return Result{ID: e.ID, Phase: Abandoned, Notes: []string{why.Error()}}, err
}

// foreignRows lists, per step, what somebody else changed.
func foreignRows(ctx context.Context, r host.Reader, e Entry) (map[int][]MovedRow, error) {
	out := map[int][]MovedRow{}
	for i, s := range e.Plan.Steps() {
		switch s.Step.Kind() {
		case "value", "sql", "command", "unit":
			if e.busy(i) {
				continue // done by half or not as wanted, it may be neither before nor after
			}
		}
		now, err := s.Step.Read(ctx, r)
		if err != nil {
			return nil, err
		}
		if rows := foreign(s, now); len(rows) > 0 {
			out[i] = rows
		}
	}
	return out, nil
}
