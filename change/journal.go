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

	"headroom/crash"
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
	Hold      bool
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
	case recStarted, recDone:
		e.Phase = Applying
	case recApplied:
		e.Phase = Applied
		if e.Hold {
			e.Phase = Holding
		}
		if r.ConfirmBy != nil {
			e.Phase, e.ConfirmBy = Awaiting, *r.ConfirmBy
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

// log appends records to one change's file. After a failed write or fsync it
// refuses everything: what the disk holds is not known any more.
type log struct {
	j      *Journal
	f      *os.File
	id     string
	n      int
	broken error
}

// create makes the file for a new change; its name is the time in UTC, to
// about a second, moved on where it is taken.
func (j *Journal) create(at time.Time, first Record) (*log, error) {
	if err := makeDir(j.dir); err != nil {
		return nil, err
	}
	day := at.UTC().Truncate(24 * time.Hour)
	n := int(at.UTC().Sub(day) * 65536 / (24 * time.Hour))
	for ; ; n++ {
		day, n = day.AddDate(0, 0, n/65536), n%65536
		id := fmt.Sprintf("%s-%04x", day.Format("20060102"), n)
		f, err := os.OpenFile(j.file(id), os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o600)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("write journal: %w", err)
		}
		l := &log{j: j, f: f, id: id}
		crash.At("change.journal-created")
		if err := errors.Join(l.add(first), host.SyncDir(j.dir)); err != nil {
			return nil, errors.Join(err, f.Close())
		}
		return l, nil
	}
}

// open continues a change's file.
func (j *Journal) open(e Entry) (*log, error) {
	f, err := os.OpenFile(j.file(e.ID), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return nil, fmt.Errorf("write journal %s: %w", e.ID, err)
	}
	l := &log{j: j, f: f, id: e.ID}
	for _, r := range e.Records {
		l.n = max(l.n, r.N+1)
	}
	if e.torn { // end the torn line, so that it costs no other
		if err := j.write(f, []byte{'\n'}); err != nil {
			return nil, errors.Join(fmt.Errorf("write journal %s: %w", e.ID, err), f.Close())
		}
	}
	return l, nil
}

// decisive records are written twice: losing one of them to a bad byte would
// lead to the wrong thing being done.
var decisive = []string{recPlan, recConfirmed, recReverted, recAbandoned}

// add appends one record. After nil it survives a power loss.
func (l *log) add(r Record) error {
	if l.broken != nil {
		return l.broken
	}
	r.N, r.At = l.n, time.Now().UTC()
	line, err := r.encode()
	if err != nil {
		return err
	}
	if slices.Contains(decisive, r.Type) {
		line = append(line, line...)
	}
	err = l.j.write(l.f, line)
	if err == nil {
		err = l.j.sync(l.f)
	}
	if err != nil {
		l.broken = fail.Hint(fmt.Errorf("write journal %s: %w", l.id, err), "is the disk full or failing? nothing is changed without a journal")
		return l.broken
	}
	l.n++
	return nil
}

func (l *log) close() error { return l.f.Close() }

// makeDir makes a folder and its parents so that their names survive a power loss.
func makeDir(dir string) error {
	if st, err := os.Stat(dir); err == nil && st.IsDir() {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return fmt.Errorf("make folder %s: %w", dir, err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make folder %s: %w", dir, err)
	}
	return host.SyncDir(filepath.Dir(dir))
}
