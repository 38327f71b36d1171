package queue

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"
)

const cursorName = "cursor"

// recover reads what an earlier process left. No file of messages is changed:
// new messages go to a new one. Damage in files but the last is found, told
// and passed over when a reader comes to it.
func (l *log) recover(ctx context.Context) error {
	segments, err := listSegments(l.disk)
	if err != nil {
		return err
	}
	c, err := l.readCursor(segments)
	if err != nil {
		return err
	}
	l.next, l.done = c.next, c.done
	if len(segments) > 0 {
		last := segments[len(segments)-1]
		end, err := l.lastOf(ctx, last)
		if err != nil {
			return fmt.Errorf("read %s: %w", last.name, err)
		}
		l.next = max(l.next, end)
		if l.next == last.first { // nothing is in it; a new file must not have the same first
			l.done.add(l.next, l.next)
			l.next++
		}
	}
	l.segments = segments
	for _, s := range segments {
		l.size += s.end
	}
	if len(segments) > 0 && segments[0].first > l.done.low {
		l.missing(l.done.low, segments[0].first-1, "the file that held them is gone")
	}
	if len(segments) == 0 {
		l.missing(l.done.low, l.next-1, "the files that held them are gone")
	}
	if err := l.saveCursor(); !noRoom(err) {
		return err
	}
	return nil // the writer will find out, and say so
}

// readCursor returns what is done. Without a cursor nothing is, and every
// message that is there comes again.
func (l *log) readCursor(segments []*segment) (cursor, error) {
	fresh := cursor{next: 1, done: doneSet{low: 1}}
	if len(segments) > 0 {
		fresh = cursor{next: segments[0].first, done: doneSet{low: segments[0].first}}
	}
	raw, err := readSmall(l.disk, cursorName)
	if errors.Is(err, fs.ErrNotExist) {
		if len(segments) > 0 {
			l.note("the note of what was acknowledged is missing; every message kept comes again")
		}
		return fresh, nil
	}
	if err != nil {
		return fresh, err
	}
	c, err := parseCursor(raw)
	if err != nil {
		l.damaged.keep(fmt.Sprintf("%s-%08x.bad", cursorName, sumOf(raw)), raw)
		l.note("%v; every message kept comes again", err)
		return fresh, nil
	}
	return c, nil
}

const smallBytes = 16 << 20

func readSmall(d disk, name string) ([]byte, error) {
	f, err := d.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	raw := make([]byte, min(size, smallBytes))
	return raw, readFull(f, raw, 0)
}

// lastOf returns the sequence after the last intact head of a segment.
func (l *log) lastOf(ctx context.Context, s *segment) (uint64, error) {
	f, err := l.disk.Open(s.name)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	next := s.first
	for off := int64(0); ; {
		p, ok, err := s.scan(f, off)
		if err != nil || !ok {
			return next, err
		}
		if p.damage == "" || p.damage == badSum {
			next = max(next, p.head.seq+1)
		}
		off = p.off + p.size
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
	}
}

// missing marks sequences as done that cannot be delivered, and tells.
func (l *log) missing(lo, hi uint64, why string) {
	if hi < lo || hi == 0 {
		return
	}
	l.mu.Lock()
	n := l.done.add(lo, hi)
	l.mu.Unlock()
	if n == 0 {
		return
	}
	l.lost.Add(n)
	l.note("lost %d messages, %d to %d: %s", n, lo, hi, why)
}

func (l *log) saveCursor() error {
	c, _ := l.spent()
	return l.disk.Replace(cursorName, c.encode())
}

// tidySoon asks the tidier to look.
func (l *log) tidySoon() {
	select {
	case l.tidy <- struct{}{}:
	default:
	}
}

// tidier remembers what is done and removes files of which nothing is left.
func (l *log) tidier() {
	defer close(l.tidied)
	for {
		select {
		case <-l.stop:
			return
		case <-l.tidy:
		}
		l.removeDone()
		select {
		case <-l.stop:
			return
		case <-time.After(l.pace.tidy):
		}
	}
}

// removeDone saves the cursor first, so that what is then missing is known to
// be done. On a full disk, where it cannot be saved, room goes first.
func (l *log) removeDone() {
	c, spent := l.spent()
	saved := l.disk.Replace(cursorName, c.encode())
	if saved != nil && !noRoom(saved) {
		l.note("cannot remember what was acknowledged: %v", saved)
		return
	}
	removed := false
	for _, s := range spent {
		if err := l.disk.Remove(s.name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			l.note("cannot remove %s: %v", s.name, err)
			return
		}
		l.mu.Lock()
		l.segments = slices.DeleteFunc(l.segments, func(x *segment) bool { return x == s })
		l.size -= s.end
		l.mu.Unlock()
		removed = true
	}
	if removed && saved != nil {
		_ = l.saveCursor()
	}
}

// spent returns the cursor, and the sealed segments of which by this cursor
// nothing is left.
func (l *log) spent() (c cursor, out []*segment) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c = cursor{l.next, doneSet{l.done.low, slices.Clone(l.done.spans)}}
	for i, s := range l.segments {
		last := l.next - 1
		if i+1 < len(l.segments) {
			last = l.segments[i+1].first - 1
		}
		if s.sealed && l.done.covers(s.first, last) {
			out = append(out, s)
		}
	}
	return c, out
}
