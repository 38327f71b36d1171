package change

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"headroom/crash"
	"headroom/fail"
	"headroom/host"
)

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
		if err := host.ShareWithFolder(f); err != nil {
			return nil, errors.Join(err, f.Close())
		}
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

// makeDir makes a folder and its parents so that their names survive a power
// loss. A service's account, where the folder lies in its own, may read what is
// there and what comes.
func makeDir(dir string) error {
	if st, err := os.Stat(dir); err == nil && st.IsDir() {
		return share(dir)
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return fmt.Errorf("make folder %s: %w", dir, err)
	}
	if err := host.MakeShared(dir); err != nil {
		return err
	}
	return host.SyncDir(filepath.Dir(dir))
}

func share(dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	if err != nil {
		return err
	}
	err = host.MakeShared(dir)
	for _, f := range files {
		err = errors.Join(err, host.Share(f))
	}
	return err
}
