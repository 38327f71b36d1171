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
// (HUP, INT, QUIT, TERM) or the end of ctx, everything done is taken back and
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
		ctx, stop := shield(ctx)
		defer stop()
		e, err := o.Journal.Get(res.ID)
		if err != nil {
			return err
		}
		_, err = revert(ctx, w, e, o, "the hold ended", apart{})
		return err
	}, nil
}

// shield keeps the program alive through the signals that would end it: HUP,
// INT, QUIT (Ctrl-\) and TERM end the returned context instead, a broken pipe
// does nothing.
func shield(ctx context.Context) (context.Context, func()) {
	pipe := make(chan os.Signal, 1)
	signal.Notify(pipe, syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM)
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
	if p.CutsOff() && hold {
		return Result{}, nil, fail.With(fmt.Errorf("hold %s: it may cut off who comes over the network, and nobody could confirm it", p.Title()), fail.Usage)
	}
	if p.CutsOff() && o.ConfirmWithin <= 0 {
		o.ConfirmWithin = p.Confirm()
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
	if err := p.fresh(ctx, r); err != nil {
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
	l, err := o.Journal.create(time.Now(), Record{Type: recPlan, Format: journalFormat, Plan: p, Confirm: o.ConfirmWithin, Hold: hold, Boot: bootID(w)})
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
		err = r.forward(ctx, false)
	}
	if err == nil && o.ConfirmWithin <= 0 {
		err = r.forward(ctx, true)
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
	phase, err := r.takeBack(ctx, cause.Error(), apart{})
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
		if err := r.remember(&rec, res); err != nil {
			return "", err
		}
	}
	crash.At("change.before-applied")
	if err := r.log.add(rec); err != nil {
		return "", err
	}
	crash.At("change.applied")
	return phase, nil
}
