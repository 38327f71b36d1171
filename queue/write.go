package queue

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"time"

	"headroom/unit"
)

const (
	groupBytes = 4 << 20 // a group that has more waits for nobody
	probeBytes = 64 << 10
)

// group is messages that share one fsync.
type group struct {
	buf   []byte
	taken chan struct{} // closed when the writer takes it
	done  chan struct{} // closed when err is set
	err   error
}

func newGroup(buf []byte) *group {
	return &group{buf: buf, taken: make(chan struct{}), done: make(chan struct{})}
}

func sumOf(msg []byte) uint32 { return crc32.Checksum(msg, castagnoli) }

// Put adds a message and returns once it is on disk. Messages that are put at
// the same time share an fsync. A context that ends leaves its fate unknown.
func (l *log) Put(ctx context.Context, msg []byte) error {
	if len(msg) > MaxMessage {
		l.refused.Add(1)
		return ErrTooLarge
	}
	sum, at := sumOf(msg), time.Now().UnixMilli()
	for {
		g, full, err := l.join(msg, at, sum)
		if err != nil {
			l.refused.Add(1)
			return err
		}
		wait := g.done
		if full {
			wait = g.taken
		}
		select {
		case <-wait:
			if !full {
				return g.err
			}
		case <-ctx.Done():
			return fmt.Errorf("put message: %w", ctx.Err())
		}
	}
}

// join adds the message to the group that is written next, or says that this
// is full.
func (l *log) join(msg []byte, at int64, sum uint32) (g *group, full bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	g = l.pending
	size := int64(frameHead + len(msg))
	switch {
	case l.closed:
		return nil, false, ErrStopped
	case l.pause != nil:
		return nil, false, l.pause
	case l.size+int64(len(g.buf))+l.writing+size > l.o.MaxBytes:
		return nil, false, ErrFull
	case len(g.buf) > 0 && len(g.buf)+int(size) > groupBytes:
		return g, true, nil
	}
	g.buf = appendFrame(g.buf, msg, at, sum)
	select {
	case l.kick <- struct{}{}:
	default:
	}
	return g, false, nil
}

// writer is the only one that writes segments.
func (l *log) writer() {
	defer close(l.written)
	retry := time.NewTicker(l.pace.probe)
	defer retry.Stop()
	for {
		select {
		case <-l.kick:
			l.commit(l.take())
		case <-retry.C:
			l.resume()
		case <-l.stop:
			l.commit(l.take())
			return
		}
	}
}

func (l *log) take() *group {
	l.mu.Lock()
	defer l.mu.Unlock()
	g := l.pending
	l.pending, l.writing = newGroup(l.spare), int64(len(g.buf))
	l.spare = nil
	close(g.taken)
	return g
}

func (l *log) commit(g *group) {
	if len(g.buf) > 0 {
		start := time.Now()
		g.err = l.write(g.buf)
		l.fsyncLast.Store(int64(time.Since(start)))
		if g.err != nil {
			l.refused.Add(1)
		}
	}
	l.mu.Lock()
	l.writing = 0
	l.spare = g.buf[:0]
	l.wakeLocked()
	l.mu.Unlock()
	close(g.done)
}

// write puts frames behind the last ones and syncs them. After an error the
// file is never written again: what of it is on disk is not known.
func (l *log) write(buf []byte) error {
	l.mu.Lock()
	pause := l.pause
	l.mu.Unlock()
	if pause != nil {
		return pause
	}
	if free := l.disk.Free(); free >= 0 && free < l.o.MinFree+int64(len(buf)) {
		return l.stopWriting(fmt.Errorf("%w: %s free, and %s are left for others", ErrDiskFull, unit.Bytes(free), unit.Bytes(l.o.MinFree)))
	}
	if err := l.rotate(int64(len(buf))); err != nil {
		return l.stopWriting(err)
	}
	s := l.active
	n := sealFrames(buf, l.next, s.salt)
	_, err := l.file.WriteAt(buf, s.end)
	if err != nil {
		_ = l.file.Truncate(s.end) // gives the room of what was half written to others
	} else {
		err = l.file.Sync()
	}
	if err != nil {
		l.abandon(n)
		return l.stopWriting(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	s.end += int64(len(buf))
	l.size += int64(len(buf))
	l.next += uint64(n)
	return nil
}

// rotate makes sure that there is a file with room. Its name is on disk before
// anything in it is acknowledged.
func (l *log) rotate(need int64) error {
	if s := l.active; s != nil {
		l.mu.Lock()
		idle := s.end >= emptyBytes && l.waiting() == 0
		l.mu.Unlock()
		if !idle && (s.end == 0 || s.end+need <= l.o.SegmentBytes) {
			return nil
		}
		l.seal()
	}
	var salt [8]byte
	_, _ = rand.Read(salt[:])
	s := &segment{first: l.next, salt: binary.LittleEndian.Uint64(salt[:])}
	s.name = segmentName(s.first, s.salt)
	f, err := l.disk.Create(s.name)
	if err != nil {
		return err
	}
	if err := l.disk.Sync(); err != nil {
		_ = f.Close()
		l.burn(1) // the file may be there: no other may begin with this one
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.active, l.file = s, f
	l.segments = append(l.segments, s)
	return nil
}

// emptyBytes is the size past which a file whose messages are all done is
// given up for a new one.
const emptyBytes = 1 << 20

// seal ends the active file.
func (l *log) seal() {
	_ = l.file.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.active.sealed = true
	l.active, l.file = nil, nil
	l.tidySoon()
}

// abandon ends the active file after a failed write. Its n messages are as if
// they had never been: readers do not see them, and their sequences are used up.
func (l *log) abandon(n int) {
	l.seal()
	l.burn(n)
}

// burn uses up sequences that no message has.
func (l *log) burn(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.done.add(l.next, l.next+uint64(n)-1)
	l.next += uint64(n)
}

// stopWriting pauses and returns what every Put is told from now on.
func (l *log) stopWriting(cause error) error {
	kind := ErrStopped
	if noRoom(cause) {
		kind = ErrDiskFull
	}
	err := fmt.Errorf("put message: %w", cause)
	if !errors.Is(cause, kind) {
		err = fmt.Errorf("put message: %w: %w", kind, cause)
	}
	l.mu.Lock()
	l.pause = err
	l.mu.Unlock()
	l.note("the queue pauses: %v; it looks each second whether it can go on", cause)
	return err
}

// resume ends a pause when a new file can be written and synced.
func (l *log) resume() {
	l.mu.Lock()
	paused := l.pause != nil
	l.mu.Unlock()
	if !paused {
		return
	}
	if !writable(l.disk, l.o.MinFree) {
		return
	}
	l.mu.Lock()
	l.pause = nil
	l.mu.Unlock()
	l.note("the queue goes on: the disk takes data again")
}

// writable writes and syncs a file and removes it.
func writable(d disk, minFree int64) bool {
	if free := d.Free(); free >= 0 && free < minFree+probeBytes {
		return false
	}
	const name = "probe"
	names, err := d.Names()
	if err == nil && slices.Contains(names, name) {
		err = d.Remove(name)
	}
	if err != nil {
		return false
	}
	f, err := d.Create(name)
	if err != nil {
		return false
	}
	_, err = f.WriteAt(make([]byte, probeBytes), 0)
	if err == nil {
		err = f.Sync()
	}
	_ = f.Close()
	return d.Remove(name) == nil && err == nil
}
