package nginx

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"

	"headroom/fail"
	"headroom/host"
)

// Limits of reading a log.
const (
	tailPart = 1 << 20   // bytes at once
	tailLine = 64 << 10  // a longer line is passed over
	tailBack = 256 << 20 // when we are further behind than this, we jump to the end
	tailOld  = 32        // rotated files that wait to be read
)

// Tail reads what is added to a log. It begins at the end of the file, or
// where State says; it follows the file when it is rotated by renaming or by
// copying and cutting, also when that happened several times while nobody
// read, and reads the old ones to their end as long as they are there and not
// compressed. A file that was cut short is read from its start.
type Tail struct {
	Path    string
	Skipped float64 // bytes passed over, because lines were too long or too many
	begun   bool
	at      Place
	old     []Place // rotated files that are still to be read to their end, the oldest first
}

// State is where a Tail had got to, for one that goes on after a restart.
type State struct {
	Skipped float64 `json:"skipped"`
	At      Place   `json:"at"`
	Old     []Place `json:"old,omitempty"`
}

// State returns where the tail has got to; false if it has not begun.
func (t *Tail) State() (State, bool) {
	return State{t.Skipped, t.at, slices.Clone(t.old)}, t.begun
}

// Resume has a tail that has not begun go on from a state.
func (t *Tail) Resume(s State) {
	if s.At.Off < 0 || s.At.Before < 0 || s.At.Before > markBytes || len(s.Old) > tailOld {
		return // not one of ours
	}
	t.begun, t.Skipped, t.at, t.old = true, s.Skipped, s.At, slices.Clone(s.Old)
}

// More hands on the lines that were added, at most budget bytes of them, and
// returns what is left of the budget. fail.ErrAbsent where there is no file.
func (t *Tail) More(ctx context.Context, r host.Reader, budget int, line func(string)) (left int, err error) {
	st, err := r.Stat(t.Path)
	if errors.Is(err, fail.ErrAbsent) && t.begun {
		return budget, nil // just rotated, and nginx has not opened it anew
	}
	if err != nil {
		return budget, err
	}
	switch {
	case !t.begun:
		t.begun, t.at = true, Place{Inode: st.Inode, Off: st.Size}
		t.at.look(r, t.Path)
	case st.Inode != t.at.Inode || st.Size < t.at.Off || !t.at.leads(r, t.Path):
		t.old = append(t.old, t.rotated(r)...)
		t.old = t.old[max(len(t.old)-tailOld, 0):]
		t.at = Place{Inode: st.Inode}
	}
	if budget, err = t.finish(ctx, r, budget, st.Size > 0, line); err != nil || budget <= 0 {
		return budget, err
	}
	if behind := st.Size - t.at.Off; behind > tailBack {
		t.Skipped += float64(behind)
		t.at = Place{Inode: st.Inode, Off: st.Size, Long: true} // we may be within a line
		t.at.look(r, t.Path)
	}
	budget, _, err = t.read(ctx, r, t.Path, &t.at, budget, line)
	return budget, err
}

// finish reads rotated files to their end. One is given up a round after its
// end was reached: nginx may go on writing to it until it was told to open the
// new one, and for a moment beyond.
func (t *Tail) finish(ctx context.Context, r host.Reader, budget int, successor bool, line func(string)) (left int, err error) {
	for i := 0; i < len(t.old) && budget > 0; {
		p, ended := &t.old[i], true
		if file := t.file(r, *p); file != "" {
			before := p.Off
			if budget, ended, err = t.read(ctx, r, file, p, budget, line); err != nil {
				return budget, err
			}
			if ended && (!p.Ended || p.Off != before) {
				p.Ended, ended = successor, false
				i++
				continue
			}
		}
		if !ended {
			return budget, nil
		}
		t.old = slices.Delete(t.old, i, i+1)
	}
	return budget, nil
}

// rotated lists what is to be read of the files that ours was renamed or
// copied to, and of those that came after it, the oldest first.
func (t *Tail) rotated(r host.Reader) []Place {
	files, own := t.files(r), -1
	for i, f := range files {
		st, err := r.Stat(f)
		same := err == nil && st.Size >= t.at.Off && (st.Inode == t.at.Inode || t.at.Before > 0) && t.at.leads(r, f)
		if same && (own < 0 || st.Inode == t.at.Inode) {
			own = i
		}
	}
	if own < 0 {
		return nil
	}
	var out []Place
	for i, f := range files[own:] {
		st, err := r.Stat(f)
		if err != nil || t.knows(st.Inode) {
			continue
		}
		p := Place{Inode: st.Inode}
		if i == 0 {
			p = t.at
			p.Inode = st.Inode
		}
		out = append(out, p)
	}
	return out
}

func (t *Tail) knows(inode uint64) bool {
	return slices.ContainsFunc(t.old, func(p Place) bool { return p.Inode == inode })
}

// file finds a rotated file by what we know of it; "" if it is not there.
func (t *Tail) file(r host.Reader, p Place) string {
	for _, f := range t.files(r) {
		if st, err := r.Stat(f); err == nil && st.Inode == p.Inode && st.Size >= p.Off && p.leads(r, f) {
			return f
		}
	}
	return ""
}

// files lists the rotated files that can be read, the oldest first: log.2,
// log.1, or log-20260101, log-20260102.
func (t *Tail) files(r host.Reader) []string {
	files, err := r.Glob(t.Path + `[.\-]*`)
	if err != nil {
		return nil
	}
	files = slices.DeleteFunc(files, func(f string) bool {
		return slices.ContainsFunc([]string{".gz", ".xz", ".bz2", ".zst"}, func(end string) bool { return strings.HasSuffix(f, end) })
	})
	slices.SortFunc(files, func(a, b string) int { return older(a[len(t.Path):], b[len(t.Path):]) })
	return files
}

// read hands on whole lines from where we are; ended says that the end of the
// file was reached.
func (t *Tail) read(ctx context.Context, r host.Reader, file string, p *Place, budget int, line func(string)) (left int, ended bool, err error) {
	for budget > 0 {
		if err := ctx.Err(); err != nil {
			return budget, false, err
		}
		want := min(tailPart, max(budget, tailLine))
		b, err := r.ReadFrom(file, p.Off, want)
		if errors.Is(err, fail.ErrAbsent) {
			return budget, true, nil
		}
		if err != nil {
			return budget, false, err
		}
		n := bytes.LastIndexByte(b, '\n') + 1
		if n == 0 && len(b) < tailLine {
			return budget, true, nil // a line that is still being written
		}
		if n == 0 { // all of it is one line that is too long
			p.Long = true
			t.Skipped += float64(len(b))
			p.pass(b)
			budget -= len(b)
			continue
		}
		t.lines(string(b[:n]), p, line)
		p.pass(b[:n])
		budget -= n
		if len(b) < want {
			return budget, true, nil
		}
	}
	return max(budget, 0), false, nil
}

func (t *Tail) lines(s string, p *Place, line func(string)) {
	for l := range strings.Lines(s) {
		if p.Long { // the end of one that is too long
			p.Long = false
			t.Skipped += float64(len(l))
			continue
		}
		line(strings.TrimSuffix(l, "\n"))
	}
}
