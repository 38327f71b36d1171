package change

import (
	"context"
	"slices"
	"strings"

	"headroom/host"
)

// overRules lets rules of an unconfirmed change be taken back although
// somebody else edited them since: who cannot come in any more cannot consent,
// and that they come back was agreed on when the change was applied. The edit
// is kept in the journal.
func (j *Journal) overRules(ctx context.Context, r host.Reader, e Entry, a *apart) error {
	if e.confirmed() {
		return nil
	}
	for i, s := range e.Plan.Steps() {
		if _, edited := a.moved[i]; !edited || s.Step.Kind() != "rules" {
			continue
		}
		now, err := s.Step.Read(ctx, r)
		if err == nil {
			err = j.append(e.ID, Record{Type: recOverwrote, Step: i, Found: &now, Note: s.Step.Object() + " was edited by somebody else; what it was is kept here"})
		}
		if err != nil {
			return err
		}
		delete(a.moved, i)
	}
	return nil
}

// passBoot leaves rules of an unconfirmed change alone that were loaded by a
// new start of the machine: they are nobody's edit.
func (a *apart) passBoot(r host.Reader, e Entry) {
	if e.confirmed() || !e.restarted(r) {
		return
	}
	for i, s := range e.Plan.Steps() {
		if _, edited := a.moved[i]; edited && s.Step.Kind() == "rules" {
			a.boot[i] = true
			delete(a.moved, i)
		}
	}
}

// restarted says that the machine was started anew since the change was begun.
func (e *Entry) restarted(r host.Reader) bool { return e.Boot != "" && bootID(r) != e.Boot }

// confirmed says that the change was kept for good once.
func (e *Entry) confirmed() bool {
	return slices.ContainsFunc(e.Records, func(r Record) bool {
		return r.Type == recConfirmed || r.Type == recApplied && r.ConfirmBy == nil && !e.Hold
	})
}

func bootID(r host.Reader) string {
	b, err := r.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
