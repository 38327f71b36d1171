package queue

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"
)

// log is a queue of its own files: messages one after the other in segments,
// and a cursor that says which are done.
//
// mu guards what writer and readers share; rmu, taken before mu, guards what
// is out. The files are written by one goroutine (writer) and taken away by
// another (tidier).
type log struct {
	o       Options
	pace    pace
	disk    disk
	dead    *deadBox
	damaged *quarantine
	release func() error

	mu       sync.Mutex
	pending  *group
	spare    []byte // room of the group before
	writing  int64  // bytes of the group that is being written
	pause    error  // why nothing is taken, nil if it is
	closed   bool
	segments []*segment
	size     int64 // bytes of all segments
	next     uint64
	done     doneSet
	wake     chan struct{} // closed when there may be something to fetch

	notes Notes

	rmu sync.Mutex
	out outbox
	at  position

	// Of the writer alone.
	active *segment
	file   file

	kick, tidy, stop chan struct{}
	written, tidied  chan struct{}
	fsyncLast        atomic.Int64
	refused, killed  atomic.Uint64
	lost             atomic.Uint64
}

// pace is how often the log looks after itself.
type pace struct {
	tidy  time.Duration // how long an acknowledgement may stay unremembered
	probe time.Duration // between looks whether a pause can end
}

// Open opens the queue that lies in a folder, or makes it: an append-only log
// whose damage stays where it is (Kind "log"). A folder is held by one process
// at a time; ErrHeld names the other.
func Open(ctx context.Context, o Options) (Queue, error) {
	o = o.WithDefaults()
	release, err := Hold(o.Dir)
	if err != nil {
		return nil, err
	}
	l, err := openLog(ctx, o, folder(o.Dir), newDeadBox(filepath.Join(o.Dir, "dead"), o.DeadBytes), newQuarantine(filepath.Join(o.Dir, "quarantine")), pace{250 * time.Millisecond, time.Second})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open queue %s: %w", o.Dir, err), release())
	}
	l.release = release
	return l, nil
}

func openLog(ctx context.Context, o Options, d disk, dead *deadBox, q *quarantine, every pace) (*log, error) {
	l := &log{
		o: o, pace: every, disk: d, dead: dead, damaged: q, release: func() error { return nil },
		pending: newGroup(nil), wake: make(chan struct{}), next: 1, done: doneSet{low: 1},
		out:  newOutbox(),
		kick: make(chan struct{}, 1), tidy: make(chan struct{}, 1), stop: make(chan struct{}),
		written: make(chan struct{}), tidied: make(chan struct{}),
	}
	if err := l.recover(ctx); err != nil {
		return nil, err
	}
	go l.writer()
	go l.tidier()
	l.tidySoon()
	return l, nil
}

// note tells a person, and keeps it for Status.
func (l *log) note(form string, args ...any) { l.notes.Add(l.o.Note, form, args...) }

// wakeLocked lets those look again who wait for messages.
func (l *log) wakeLocked() {
	close(l.wake)
	l.wake = make(chan struct{})
}

// waiting is how many messages are not done; l.mu is held.
func (l *log) waiting() uint64 { return l.next - l.done.low - l.done.above() }

// Close waits for what is being written, remembers what is done, and lets the
// folder go. Those who wait get ErrStopped.
func (l *log) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	l.closed = true
	l.wakeLocked()
	l.mu.Unlock()
	close(l.stop)
	<-l.written
	<-l.tidied
	err := l.saveCursor()
	l.rmu.Lock()
	l.at.close()
	l.rmu.Unlock()
	if l.file != nil {
		err = errors.Join(err, l.file.Close())
	}
	return errors.Join(err, l.release())
}

// Status says how full the queue is. Oldest is the oldest message that was
// not yet fetched, or is out.
func (l *log) Status(ctx context.Context) (Status, error) {
	s := Status{Kind: "log", Limit: uint64(l.o.MaxBytes), FsyncLast: time.Duration(l.fsyncLast.Load()),
		Killed: l.killed.Load(), Refused: l.refused.Load(), Lost: l.lost.Load(), DiskFree: uint64(max(l.disk.Free(), 0))}
	s.Dead, s.DeadDropped = l.dead.count()
	l.rmu.Lock()
	oldest, known := l.oldest()
	l.rmu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return s, ErrStopped
	}
	s.Messages = l.waiting()
	if s.Messages > 0 {
		s.Bytes = uint64(l.size)
		if known {
			s.Oldest = oldest
		}
	}
	if l.pause != nil {
		s.Paused = l.pause.Error()
	}
	s.Notes = l.notes.List()
	return s, nil
}
