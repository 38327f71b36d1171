package change

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"headroom/fail"
	"headroom/host"
)

// Journal keeps what was changed and how to take it back: one file per change
// in Dirs.State/journal, each line one Record. A record is on disk before
// what it tells of is begun. Files are only ever appended to.
type Journal struct {
	dir string // of the files
	run string // of the lock
	// write and sync stand for the file system in tests of its failures.
	write func(*os.File, []byte) error
	sync  func(*os.File) error
}

// OpenJournal returns the journal below the given folders, which are made
// when the first change is written.
func OpenJournal(d host.Dirs) *Journal {
	return &Journal{dir: filepath.Join(d.State, "journal"), run: d.Run,
		write: func(f *os.File, b []byte) error { _, err := f.Write(b); return err }, sync: (*os.File).Sync}
}

// Phase is how far a change got.
type Phase string

// The phases.
const (
	Begun      Phase = "begun"      // written down; no step started
	Applying   Phase = "applying"   // some steps started; being applied, or interrupted
	Applied    Phase = "applied"    // all done and verified
	Awaiting   Phase = "awaiting"   // applied, and taken back unless confirmed in time
	Holding    Phase = "holding"    // applied for as long as the process lives that did it
	Reverting  Phase = "reverting"  // being taken back, or interrupted at that
	Reverted   Phase = "reverted"   // as before
	Failed     Phase = "failed"     // could not be taken back
	Abandoned  Phase = "abandoned"  // given up by the user
	Void       Phase = "void"       // cut off while it was being written down: nothing was begun
	Unreadable Phase = "unreadable" // the plan is lost: see Damage
)

// Entry is one change in the journal.
type Entry struct {
	ID        string
	Phase     Phase
	Plan      *Plan // nil if Unreadable
	At        time.Time
	Confirm   time.Duration // asked for with --confirm-within; 0: none
	ConfirmBy time.Time     // when it is taken back; zero if not applied or not asked for
	Port      uint16        // to which a new connection must be seen before it is confirmed; 0: none
	known     []string      // connections that there were when it was applied
	Hold      bool
	Boot      string // boot id when it was begun; "" if it is not known
	Records   []Record
	// Damage lists records that could not be read, with the reason. The file
	// is left as it is.
	Damage []string
	torn   bool
	size   int64
}

var idForm = regexp.MustCompile(`^\d{8}-[0-9a-f]{4}$`)

const journalLimit = 512 << 20

// List returns all changes, the oldest first. A journal that does not exist
// yet is empty. Files that cannot be opened are errors.
func (j *Journal) List() ([]Entry, error) {
	files, err := os.ReadDir(j.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list journal: %w", err)
	}
	var out []Entry
	for _, f := range files {
		id, ok := strings.CutSuffix(f.Name(), ".jsonl")
		if !ok || !idForm.MatchString(id) {
			continue
		}
		e, err := j.Get(id)
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, nil
}

// Get returns one change. fail.ErrAbsent if there is none of that id.
func (j *Journal) Get(id string) (Entry, error) {
	if !idForm.MatchString(id) {
		return Entry{}, fail.With(fail.Hint(fmt.Errorf("read journal %q: not the id of a change", id),
			"ids look like 20261120-7f3a; see `headroom journal`"), fail.Usage)
	}
	st, err := os.Stat(j.file(id))
	if errors.Is(err, fs.ErrNotExist) {
		return Entry{}, fail.Hint(fmt.Errorf("read journal %s: %w", id, fail.ErrAbsent), "see `headroom journal` for the changes that there are")
	}
	if err == nil && st.Size() > journalLimit {
		err = errors.New("larger than 512 MiB")
	}
	if err != nil {
		return Entry{}, fmt.Errorf("read journal %s: %w", id, err)
	}
	b, err := os.ReadFile(j.file(id))
	if err != nil {
		return Entry{}, fmt.Errorf("read journal %s: %w", id, err)
	}
	return newEntry(id, b), nil
}

func (j *Journal) file(id string) string { return filepath.Join(j.dir, id+".jsonl") }

// newEntry makes sense of a journal file's bytes, whatever they are.
func newEntry(id string, data []byte) Entry {
	e := Entry{ID: id, Phase: Unreadable, size: int64(len(data))}
	var all []Record
	all, e.Damage, e.torn = decodeAll(data)
	last := -1
	for _, r := range all {
		if r.N <= last {
			continue // the second of a pair
		}
		if r.N > last+1 {
			e.Damage = append(e.Damage, fmt.Sprintf("records %d to %d are lost", last+1, r.N-1))
		}
		last = r.N
		e.Records = append(e.Records, r)
		e.take(r)
	}
	if e.Plan == nil {
		e.Phase = Unreadable
		if len(e.Records)+len(e.Damage) == 0 {
			e.Phase = Void
		}
	}
	return e
}

func (e *Entry) take(r Record) {
	switch r.Type {
	case recPlan:
		if r.Format != journalFormat || r.Plan == nil {
			e.Damage = append(e.Damage, fmt.Sprintf("the plan has format %d: this Headroom reads %d", r.Format, journalFormat))
			return
		}
		e.Plan, e.At, e.Confirm, e.Hold, e.Phase = r.Plan, r.At, r.Confirm, r.Hold, Begun
		e.Boot = r.Boot
	case recStarted, recDone:
		e.Phase = Applying
	case recApplied:
		e.Phase = Applied
		if e.Hold {
			e.Phase = Holding
		}
		if r.ConfirmBy != nil {
			e.Phase, e.ConfirmBy, e.Port, e.known = Awaiting, *r.ConfirmBy, r.Port, r.Known
		}
	case recConfirmed:
		e.Phase = Applied
	case recReverting:
		e.Phase = Reverting
	case recReverted:
		e.Phase = Reverted
	case recFailed:
		e.Phase = Failed
	case recAbandoned:
		e.Phase = Abandoned
	}
}

// done says whether every step was done and verified.
func (e *Entry) done() bool {
	n := map[int]bool{}
	for _, r := range e.Records {
		if r.Type == recDone {
			n[r.Step] = true
		}
	}
	return e.Plan != nil && len(n) == len(e.Plan.Steps())
}

// applied says whether the change was ever whole.
func (e *Entry) applied() bool {
	return slices.ContainsFunc(e.Records, func(r Record) bool { return r.Type == recApplied })
}

// busy says whether a step was started and not finished.
func (e *Entry) busy(step int) bool {
	started, done := false, false
	for _, r := range e.Records {
		started = started || r.Type == recStarted && r.Step == step
		done = done || r.Type == recDone && r.Step == step
	}
	return started && !done
}
