package queue

import (
	"errors"
	"io"
	"io/fs"
	"time"
)

// position is the place up to which messages were read.
type position struct {
	seg    *segment
	f      file
	off    int64
	expect uint64 // the sequence that comes next
	failed int    // reads that failed here
}

func (p *position) close() {
	if p.f != nil {
		_ = p.f.Close()
	}
	p.seg, p.f = nil, nil
}

// view is a segment as a reader may see it now.
type view struct {
	segment
	bound uint64 // highest sequence it can hold
	after *segment
}

// look returns the segment of the position as it is now; ok is false while
// there is none.
func (l *log) look() (v view, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.at.seg == nil {
		if len(l.segments) == 0 {
			return view{}, false
		}
		l.at.seg, l.at.off, l.at.expect = l.segments[0], 0, l.segments[0].first
	}
	v = view{segment: *l.at.seg, bound: l.next - 1}
	for _, s := range l.segments {
		if s.first > v.first { // no two have the same
			v.after, v.bound = s, s.first-1
			break
		}
	}
	return v, true
}

// advance reads on to the next message that is not done; ok is false if there
// is none yet. What is damaged on the way is set aside. l.rmu is held.
func (l *log) advance() (e *entry, data []byte, ok bool, err error) {
	for {
		v, ok := l.look()
		if !ok {
			return nil, nil, false, nil
		}
		if l.at.off >= v.end {
			if v.sealed {
				l.missing(l.at.expect, v.bound, "the end of "+v.name+" is missing")
				l.at.expect = max(l.at.expect, v.bound+1)
			}
			if v.after == nil {
				return nil, nil, false, nil
			}
			l.at.close()
			l.at = position{seg: v.after, expect: v.after.first}
			continue
		}
		p, err := l.scanHere(v)
		if errors.Is(err, fs.ErrNotExist) { // all done and removed, or taken away by somebody
			l.at.off = v.end
			continue
		}
		if err != nil {
			return nil, nil, false, err
		}
		from := l.at.off
		l.at.off += p.size
		if p.damage != "" {
			l.setAside(v, p)
			continue
		}
		seq := p.head.seq
		if seq < l.at.expect || seq > v.bound {
			continue
		}
		l.missing(l.at.expect, seq-1, "damaged in "+v.name)
		l.at.expect = seq + 1
		if l.isDone(seq) {
			continue
		}
		return &entry{seg: l.at.seg, off: from, head: p.head}, p.data, true, nil
	}
}

func (l *log) isDone(seq uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.done.has(seq)
}

// scanHere reads at the position. A place that cannot be read is tried three
// times, then counts as damaged.
func (l *log) scanHere(v view) (piece, error) {
	if l.at.f == nil {
		f, err := l.disk.Open(v.name)
		if err != nil {
			return piece{}, err
		}
		l.at.f = f
	}
	var from io.ReaderAt = l.at.f
	if l.at.failed >= 3 {
		from = patched{from}
	}
	p, _, err := v.scan(from, l.at.off)
	if err != nil {
		l.at.failed++
		return piece{}, err
	}
	l.at.failed = 0
	return p, nil
}

// setAside copies damaged bytes to the quarantine and tells.
func (l *log) setAside(v view, p piece) {
	raw := make([]byte, min(p.size, MaxMessage+frameHead))
	_ = readFull(patched{l.at.f}, raw, p.off)
	l.damaged.keep(quarantineName(v.name, p.off), raw)
	if seq := p.head.seq; p.damage == badSum && seq >= l.at.expect && seq <= v.bound {
		l.missing(l.at.expect, seq, p.damage+" in "+v.name)
		l.at.expect = seq + 1
		return
	}
	l.note("%d bytes at %d of %s set aside: %s", p.size, p.off, v.name, p.damage)
}

// again reads a message that was read before.
func (l *log) again(e *entry) ([]byte, error) {
	f, err := l.disk.Open(e.seg.name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	s := segment{salt: e.seg.salt, end: e.off + frameHead + int64(e.head.size)}
	p, _, err := s.scan(f, e.off)
	if err == nil && (p.damage != "" || p.head.seq != e.head.seq) {
		err = errors.New("damaged since it was read first")
	}
	return p.data, err
}

// oldest is when the oldest message that is not done was put; l.rmu is held.
func (l *log) oldest() (time.Time, bool) {
	var at int64
	for _, e := range l.out.bySeq {
		if at == 0 || e.head.at < at {
			at = e.head.at
		}
	}
	if at > 0 {
		return time.UnixMilli(at), true
	}
	v, ok := l.look()
	if !ok || l.at.off >= v.end {
		return time.Time{}, false
	}
	p, err := l.scanHere(v)
	if err != nil || p.damage != "" {
		return time.Time{}, false
	}
	return time.UnixMilli(p.head.at), true
}

// patched reads zeros where nothing can be read.
type patched struct{ io.ReaderAt }

const patch = 4 << 10

func (r patched) ReadAt(b []byte, off int64) (int, error) {
	if n, err := r.ReaderAt.ReadAt(b, off); err == nil || err == io.EOF {
		return n, err
	}
	for done := 0; done < len(b); {
		part := b[done:min(len(b), done+patch)]
		if n, err := r.ReaderAt.ReadAt(part, off+int64(done)); err != nil {
			clear(part[n:])
		}
		done += len(part)
	}
	return len(b), nil
}
