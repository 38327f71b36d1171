package nginx

import (
	"bytes"
	"context"
	"errors"
	"strings"

	"headroom/fail"
	"headroom/host"
)

// Limits of reading a log.
const (
	tailPart = 1 << 20   // bytes at once
	tailLine = 64 << 10  // a longer line is passed over
	tailBack = 256 << 20 // when we are further behind than this, we jump to the end
)

// Tail reads what is added to a log. It begins at the end of the file; it
// follows the file when it is rotated, and reads the old one to its end; a
// file that was cut short is read from its start.
type Tail struct {
	Path    string
	Skipped float64 // bytes passed over, because lines were too long or too many
	begun   bool
	inode   uint64
	off     int64
	old     string // the rotated file that is still to be read to its end
	long    bool   // within a line that is too long
}

// More hands on the lines that were added, at most budget bytes of them, and
// returns what is left of the budget. fail.ErrAbsent where there is no file.
func (t *Tail) More(ctx context.Context, r host.Reader, budget int, line func(string)) (left int, err error) {
	st, err := r.Stat(t.Path)
	if errors.Is(err, fail.ErrAbsent) && t.begun {
		err = nil // just rotated, and nginx has not opened it anew
		return budget, err
	}
	if err != nil {
		return budget, err
	}
	switch {
	case !t.begun:
		t.begun, t.inode, t.off = true, st.Inode, st.Size
	case st.Inode != t.inode && t.old == "":
		t.old = t.rotated(r)
		if t.old == "" {
			t.inode, t.off, t.long = st.Inode, 0, false
		}
	}
	if t.old != "" {
		ended := false
		if budget, ended, err = t.read(ctx, r, t.old, budget, line); err != nil || !ended {
			return budget, err
		}
		t.old, t.inode, t.off, t.long = "", st.Inode, 0, false
	}
	if st.Size < t.off {
		t.off, t.long = 0, false
	}
	if behind := st.Size - t.off; behind > tailBack {
		t.Skipped += float64(behind)
		t.off, t.long = st.Size, true // we may be within a line
	}
	budget, _, err = t.read(ctx, r, t.Path, budget, line)
	return budget, err
}

// rotated finds the file that has our inode now: log.1, log-20260101.
func (t *Tail) rotated(r host.Reader) string {
	files, err := r.Glob(t.Path + "*")
	if err != nil {
		return ""
	}
	for _, f := range files {
		if f == t.Path || len(f) == len(t.Path) {
			continue
		}
		if st, err := r.Stat(f); err == nil && st.Inode == t.inode && st.Size >= t.off {
			return f
		}
	}
	return ""
}

// read hands on whole lines from where we are; ended says that the end of the
// file was reached.
func (t *Tail) read(ctx context.Context, r host.Reader, file string, budget int, line func(string)) (left int, ended bool, err error) {
	for budget > 0 {
		if err := ctx.Err(); err != nil {
			return budget, false, err
		}
		want := min(tailPart, max(budget, tailLine))
		b, err := r.ReadFrom(file, t.off, want)
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
			t.long = true
			t.Skipped += float64(len(b))
			t.off += int64(len(b))
			budget -= len(b)
			continue
		}
		t.lines(string(b[:n]), line)
		t.off += int64(n)
		budget -= n
		if len(b) < want {
			return budget, true, nil
		}
	}
	return max(budget, 0), false, nil
}

func (t *Tail) lines(s string, line func(string)) {
	for l := range strings.Lines(s) {
		if t.long { // the end of one that is too long
			t.long = false
			t.Skipped += float64(len(l))
			continue
		}
		line(strings.TrimSuffix(l, "\n"))
	}
}
