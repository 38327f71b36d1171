package change

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"headroom/crash"
	"headroom/fail"
	"headroom/host"
)

// Apply does exactly the plan and verifies it by reading the machine again.
// It ends in after, with error nil, or in before: on a failure, a signal
// (HUP, INT, TERM) or the end of ctx, everything done is taken back and
// verified, too. Statuses: fail.Drift (something moved since the plan; a
// *Moved shows it), fail.Locked, fail.Reverted, fail.NotReverted,
// fail.Interrupted. Killed, it leaves a journal from which Recover goes on.
func Apply(ctx context.Context, w host.Writer, p *Plan, o Options) (Result, error) {
	res, l, err := apply(ctx, w, p, o, false)
	if l != nil {
		l.release()
	}
	return res, err
}

// Hold applies a plan for as long as this process lives: no other change can
// run until release takes it back, and if the process dies, the next Recover
// takes it back. It is what trials use on a live machine. release may be
// called after ctx ended; after an error there is nothing to release.
func Hold(ctx context.Context, w host.Writer, p *Plan, o Options) (release func(context.Context) error, err error) {
	o.ConfirmWithin = 0
	res, l, err := apply(ctx, w, p, o, true)
	if err != nil || l == nil {
		if l != nil {
			l.release()
		}
		return func(context.Context) error { return nil }, err
	}
	return func(ctx context.Context) error {
		defer l.release()
		e, err := o.Journal.Get(res.ID)
		if err != nil {
			return err
		}
		_, err = revert(ctx, w, e, o, "the hold ended", nil)
		return err
	}, nil
}

// shield keeps the program alive through the signals that would end it: HUP,
// INT and TERM end the returned context instead, a broken pipe does nothing.
func shield(ctx context.Context) (context.Context, func()) {
	pipe := make(chan os.Signal, 1)
	signal.Notify(pipe, syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM)
	return ctx, func() { stop(); signal.Stop(pipe) }
}

func apply(ctx context.Context, w host.Writer, p *Plan, o Options, hold bool) (Result, *lock, error) {
	if err := p.intact(); err != nil {
		return Result{}, nil, err
	}
	if p.Restarts() && !o.accepts(AcceptRestart) {
		return Result{}, nil, fail.With(fail.Hint(fmt.Errorf("apply %s: it restarts the server, which cuts every connection", p.Title()),
			"accept that with --accept restart"), fail.Usage)
	}
	ctx, stop := shield(ctx)
	defer stop()
	l, err := o.Journal.lock("apply " + p.Title())
	if err != nil {
		return Result{}, nil, err
	}
	crash.At("change.locked")
	if err = checkFree(o.Journal); err == nil {
		err = checkSame(ctx, w, p)
	}
	if err != nil || p.Nothing() {
		l.release()
		return Result{}, nil, err
	}
	res, err := applyLocked(ctx, w, p, o, hold)
	return res, l, err
}

// checkSame makes sure that machine, server and all objects are those, and
// are as, the plan was made for.
func checkSame(ctx context.Context, r host.Reader, p *Plan) error {
	if err := p.here(ctx, r); err != nil {
		return err
	}
	var now []State
	for _, c := range p.Changes {
		for _, s := range c.Steps {
			st, err := s.Step.Read(ctx, r)
			if err != nil {
				return err
			}
			now = append(now, st)
		}
	}
	return drift(p, now)
}

// checkFree refuses to begin while another change is half done or waits for
// its confirmation.
func checkFree(j *Journal) error {
	es, err := j.List()
	if err != nil {
		return err
	}
	for _, e := range es {
		why := ""
		switch e.Phase {
		case Awaiting:
			why = "it waits to be confirmed: `headroom confirm " + e.ID + "` or `headroom revert " + e.ID + "`"
		case Begun, Applying, Reverting, Failed, Holding:
			why = "it was not finished: `headroom revert " + e.ID + "`"
		default:
			continue
		}
		return fail.With(fail.Hint(fmt.Errorf("begin a change: change %s (%s) is not settled", e.ID, e.Plan.Title()), "%s", why), fail.Locked)
	}
	return nil
}

func applyLocked(ctx context.Context, w host.Writer, p *Plan, o Options, hold bool) (Result, error) {
	crash.At("change.checked")
	l, err := o.Journal.create(time.Now(), Record{Type: recPlan, Format: journalFormat, Plan: p, Confirm: o.ConfirmWithin, Hold: hold})
	if err != nil {
		return Result{}, err
	}
	defer func() { _ = l.close() }() // every record was synced on its own
	crash.At("change.journaled")
	r := &run{w: w, o: o, log: l, plan: p, steps: p.Steps()}
	res := Result{ID: l.id}
	g, err := r.arm(ctx)
	if err == nil {
		defer g.release()
		err = r.forward(ctx)
	}
	if err == nil {
		res.Phase, err = r.finish(&res, hold)
	}
	if err != nil {
		res.ConfirmBy = time.Time{}
		res.Phase, err = r.failed(ctx, fmt.Errorf("apply %s: %w", p.Title(), err))
	}
	return res, err
}

// failed goes back after cause and returns what the user is told.
func (r *run) failed(ctx context.Context, cause error) (Phase, error) {
	r.o.say("%v", cause)
	phase, err := r.takeBack(ctx, cause.Error(), nil)
	if phase != Reverted {
		return phase, fail.With(fmt.Errorf("%w; and it could not be taken back: %w", cause, err), fail.NotReverted)
	}
	out := fmt.Errorf("%w (all is as before)", cause)
	if err != nil && !errors.Is(cause, err) {
		out = fmt.Errorf("%w (all is as before; %w)", cause, err)
	}
	if ctx.Err() != nil {
		return phase, fail.With(out, fail.Interrupted)
	}
	return phase, fail.With(out, fail.Reverted)
}

// finish records that all is done.
func (r *run) finish(res *Result, hold bool) (Phase, error) {
	rec := Record{Type: recApplied}
	phase := Applied
	if hold {
		phase = Holding
	}
	if d := r.o.ConfirmWithin; d > 0 {
		by := time.Now().UTC().Add(d)
		rec.ConfirmBy, res.ConfirmBy, phase = &by, by, Awaiting
	}
	crash.At("change.before-applied")
	if err := r.log.add(rec); err != nil {
		return "", err
	}
	crash.At("change.applied")
	return phase, nil
}

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
