package trial

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"headroom/change"
	"headroom/crash"
)

// turns is a stage of one stand on which the arms take turns. An arm's changes
// are held through the journal while it works, so that whatever ends this
// process, the next start takes them back.
type turns struct {
	env    Env
	work   Work
	stand  *Stand
	arms   []Arm
	accept []string
	text   string
	pid    func() int
	finish func() error

	plans   []*change.Plan
	now     int // whose changes are in force
	release func(context.Context) error
	open    Session
}

func (s site) openTurns(ctx context.Context, stand *Stand, where string, pid func() int, finish func() error) (opened, error) {
	t := &turns{env: s.env, work: s.work, stand: stand, arms: s.exp.Arms, accept: s.exp.Options.Accept,
		text: where, pid: pid, finish: finish, plans: make([]*change.Plan, len(s.exp.Arms))}
	if !stand.Live {
		t.accept = append(t.accept, change.AcceptRestart)
	}
	err := t.recover(ctx, s.say)
	if err == nil {
		err = t.prepare(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, t.close())
	}
	return t, nil
}

// recover takes back what an earlier trial left behind when it was killed: the
// base is the stand without it.
func (t *turns) recover(ctx context.Context, say func(string)) error {
	found, err := change.Recover(ctx, t.stand.Host, change.Options{Journal: change.OpenJournal(t.env.Dirs), Accept: t.accept, Say: say})
	for _, f := range found {
		say(Found + f.Text)
	}
	return err
}

// prepare plans every arm from the stand as it is and opens the session.
func (t *turns) prepare(ctx context.Context) error {
	for i, a := range t.arms {
		if len(a.Changes) == 0 {
			continue
		}
		if i == 0 {
			return fmt.Errorf("take turns: the base %s has changes; it must be the stand as it is", a.Name)
		}
		cs, err := t.env.changes(ctx, t.stand.Host, a)
		if err != nil {
			return err
		}
		if t.plans[i], err = change.Prepare(ctx, t.stand.Host, cs...); err != nil {
			return err
		}
	}
	var err error
	t.open, err = t.work.Open(ctx, t.stand)
	return err
}

func (t *turns) where() string       { return t.text }
func (t *turns) shared() bool        { return true }
func (t *turns) equal() bool         { return t.now == 0 }
func (t *turns) session(int) Session { return t.open }

func (t *turns) change(context.Context, func(string)) ([]json.RawMessage, error) {
	out := make([]json.RawMessage, len(t.arms))
	for i, p := range t.plans {
		if p == nil {
			continue
		}
		var err error
		if out[i], err = json.Marshal(p); err != nil {
			return nil, fmt.Errorf("keep the plan of arm %s: %w", t.arms[i].Name, err)
		}
	}
	return out, nil
}

// turn takes back what another arm holds and holds this arm's changes. Every
// arm starts from the same state: a plan that does not fit any more, because
// somebody else changed something, is refused.
func (t *turns) turn(ctx context.Context, arm int) (fresh bool, err error) {
	if t.now == arm {
		return false, nil
	}
	restart := t.restarts(t.now) || t.restarts(arm)
	if restart && t.open != nil {
		_ = t.open.Close() // the restart cuts its connections in any case
		t.open = nil
	}
	fresh = t.release != nil || t.plans[arm] != nil
	if err := t.takeBack(ctx); err != nil {
		return false, err
	}
	if p := t.plans[arm]; p != nil {
		t.release, err = change.Hold(ctx, t.stand.Host, p, change.Options{Journal: change.OpenJournal(t.env.Dirs), Accept: t.accept})
		if err != nil {
			return false, fmt.Errorf("change to arm %s: %w", t.arms[arm].Name, err)
		}
		crash.At("trial.held")
	}
	t.now = arm
	if restart {
		t.open, err = t.work.Open(ctx, t.stand)
	}
	return fresh, err
}

func (t *turns) restarts(arm int) bool { return t.plans[arm] != nil && t.plans[arm].Restarts() }

func (t *turns) takeBack(ctx context.Context) error {
	if t.release == nil {
		return nil
	}
	release := t.release
	t.release = nil
	if err := release(ctx); err != nil {
		return fmt.Errorf("take back arm %s: %w", t.arms[t.now].Name, err)
	}
	t.now = 0
	crash.At("trial.released")
	return nil
}

func (t *turns) watch(ctx context.Context, _ int) func(context.Context, Round) seen {
	w := watcher{machine: t.stand.Host, pid: t.pid()}
	if t.stand.DSN != "" {
		w.server = t.stand.Host
	}
	return w.begin(ctx)
}

// facts are those of the base.
func (t *turns) facts(ctx context.Context) (json.RawMessage, map[string]string, error) {
	if _, err := t.turn(ctx, 0); err != nil {
		return nil, nil, err
	}
	return t.env.keepFacts(ctx, t.stand.Host)
}

func (t *turns) close() error {
	ctx, stop := context.WithTimeout(context.Background(), teardownLimit)
	defer stop()
	err := t.takeBack(ctx)
	if t.open != nil {
		_ = t.open.Close()
	}
	return errors.Join(err, t.finish())
}
