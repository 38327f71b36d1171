package change

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"headroom/crash"
	"headroom/fail"
	"headroom/host"
)

// Found is a change that was not settled, and what became of it.
type Found struct {
	ID   string
	Was  Phase // as it was found
	Now  Phase // after Recover; the same as Was from Pending
	Text string
	Err  error // why it could not be settled; nil if it was, or was not tried
}

// unsettled says why a change needs recovery, or "".
func (e *Entry) unsettled(now time.Time) string {
	switch e.Phase {
	case Begun, Applying:
		return "was interrupted while it was applied"
	case Holding:
		return "was held by a process that is gone"
	case Reverting:
		return "was interrupted while it was taken back"
	case Failed:
		return "could not be taken back"
	case Awaiting:
		if now.After(e.ConfirmBy.Add(guardGrace)) {
			return "was not confirmed by " + e.ConfirmBy.Format(time.RFC3339)
		}
	}
	return ""
}

// guardGrace is how long after the deadline the guard is left to do its work
// before Recover does it.
const guardGrace = 2 * time.Second

// Pending lists what Recover would settle, and journals that are found
// damaged, without doing anything. While a change is running it lists nothing.
func Pending(j *Journal) ([]Found, error) {
	busy, err := j.held()
	if err != nil || busy {
		return nil, err
	}
	es, err := j.List()
	if err != nil {
		return nil, err
	}
	var out []Found
	for _, e := range es {
		if why := e.unsettled(time.Now()); why != "" {
			out = append(out, Found{ID: e.ID, Was: e.Phase, Now: e.Phase,
				Text: fmt.Sprintf("change %s (%s) %s; the next apply or revert brings it back", e.ID, e.Plan.Title(), why)})
		}
		if !j.toldDamage(e) {
			out = append(out, e.damaged())
		}
	}
	return out, nil
}

// damaged tells of records that could not be read.
func (e *Entry) damaged() Found {
	return Found{ID: e.ID, Was: e.Phase, Now: e.Phase,
		Text: fmt.Sprintf("the journal of change %s is damaged, its phase reads %s: %s", e.ID, e.Phase, strings.Join(e.Damage, "; "))}
}

func (j *Journal) copyOf(e Entry) string { return filepath.Join(j.dir, "damaged", e.ID+".jsonl") }

// toldDamage says that a journal is whole, or that its damage was told and
// copied away by an earlier Recover.
func (j *Journal) toldDamage(e Entry) bool {
	if len(e.Damage) == 0 {
		return true
	}
	_, err := os.Stat(j.copyOf(e))
	return err == nil
}

// Recover settles what an interruption left: every change that was half
// applied, held by a process that died, or not confirmed in time is taken back
// and verified; one of which only the last record is missing gets that record.
// It is called first by every verb that changes. What it found and did is
// returned also with an error; the error says what stays unsettled.
func Recover(ctx context.Context, w host.Writer, o Options) ([]Found, error) {
	todo, err := Pending(o.Journal)
	if err != nil || len(todo) == 0 {
		return nil, err
	}
	ctx, stop := shield(ctx)
	defer stop()
	l, err := o.Journal.lock("recover")
	if err != nil {
		return nil, err
	}
	defer l.release()
	crash.At("change.recover-locked")
	es, err := o.Journal.List()
	if err != nil {
		return nil, err
	}
	var out []Found
	var errs []error
	for _, e := range es {
		if !o.Journal.toldDamage(e) {
			out = append(out, e.damaged())
			o.say("%s", out[len(out)-1].Text)
			errs = append(errs, o.Journal.quarantine(e))
		}
		why := e.unsettled(time.Now())
		if why == "" {
			continue
		}
		f := recoverOne(ctx, w, e, o, why)
		out = append(out, f)
		o.say("%s", f.Text)
		if f.Err != nil {
			errs = append(errs, f.Err)
		}
	}
	return out, errors.Join(errs...)
}

func recoverOne(ctx context.Context, w host.Writer, e Entry, o Options, why string) Found {
	f := Found{ID: e.ID, Was: e.Phase, Now: e.Phase}
	name := fmt.Sprintf("change %s (%s) %s", e.ID, e.Plan.Title(), why)
	if err := reach(ctx, w, e, o); err != nil {
		f.Err = fail.Hint(fmt.Errorf("%s and cannot be taken back now: %w", name, err),
			"name its server with --db; if it is gone for good: headroom revert %s --accept %s", e.ID, AcceptLost)
		f.Text = f.Err.Error()
		return f
	}
	if f.Err = o.Journal.append(e.ID, Record{Type: recRecovered, Note: why}); f.Err == nil {
		e, f.Err = o.Journal.Get(e.ID)
	}
	if f.Err != nil {
		f.Text = name + ": " + f.Err.Error()
		return f
	}
	crash.At("change.recover-found")
	if e.Phase == Applying && e.Confirm == 0 && !e.Hold && e.done() && isAfter(ctx, w, e) {
		f.Err = o.Journal.append(e.ID, Record{Type: recApplied, Note: "completed by recovery"})
		f.Now, f.Text = Applied, name+" after its last step; it is applied and verified"
		return f
	}
	res, err := backUnasked(ctx, w, e, o, why)
	f.Now = res.Phase
	if f.Err = err; err != nil {
		f.Text = name + ": " + err.Error()
	} else {
		f.Text = name + "; it was taken back: all is as before"
	}
	return f
}

// backUnasked takes a change back where nobody can be asked: what somebody
// else changed since is left alone, and told.
func backUnasked(ctx context.Context, w host.Writer, e Entry, o Options, why string) (Result, error) {
	a, err := findApart(ctx, w, e)
	if err == nil {
		err = o.Journal.overRules(ctx, w, e, &a)
	}
	if err != nil {
		return Result{ID: e.ID, Phase: e.Phase}, err
	}
	return revert(ctx, w, e, o, why, a)
}

// isAfter says whether every object is as the change leaves it.
func isAfter(ctx context.Context, r host.Reader, e Entry) bool {
	for _, s := range e.Plan.Steps() {
		now, err := s.Step.Read(ctx, r)
		if err != nil || !now.reached(s.After) {
			return false
		}
	}
	return true
}

// append adds one record to a change's file as it is now.
func (j *Journal) append(id string, r Record) error {
	e, err := j.Get(id)
	if err != nil {
		return err
	}
	l, err := j.open(e)
	if err != nil {
		return err
	}
	return errors.Join(l.add(r), l.close())
}

// quarantine keeps a copy of a damaged file as it was found.
func (j *Journal) quarantine(e Entry) error {
	to := j.copyOf(e)
	if err := makeDir(filepath.Dir(to)); err != nil {
		return err
	}
	b, err := os.ReadFile(j.file(e.ID))
	if err != nil {
		return fmt.Errorf("copy damaged journal %s: %w", e.ID, err)
	}
	return host.WriteDurable(to, b, 0o600)
}
