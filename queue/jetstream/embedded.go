package jetstream

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"headroom/queue"
)

// engine is the server within this process. After an error of the disk its
// streams refuse all writes until it is started anew, which it is as soon as
// the disk takes data again: each start is a generation.
type engine struct {
	line
	release func() error
	server  *server.Server
	mending sync.WaitGroup
	journal *journal
}

// startWithin is how long a server may take to be ready: it reads what it has.
const startWithin = time.Minute

// OpenEmbedded runs a NATS server within this process (Kind "embedded") that
// listens nowhere and acknowledges after fsync. A folder is held by one process
// at a time.
func OpenEmbedded(ctx context.Context, o queue.Options) (queue.Queue, error) {
	o = o.WithDefaults()
	release, err := queue.Hold(o.Dir)
	if err != nil {
		return nil, err
	}
	e := &engine{release: release, journal: openJournal(o.Dir)}
	e.line = line{o: o, kind: "embedded", stop: make(chan struct{}), failed: e.broken, done: e.close,
		free: func() uint64 { return queue.Free(o.Dir) }}
	if err := e.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("open queue %s: %w", o.Dir, err), release())
	}
	return e, nil
}

// start runs a new generation.
func (e *engine) start(ctx context.Context) error {
	if err := setAsideUnknown(e.o.Dir, e.note); err != nil {
		return err
	}
	s, err := server.NewServer(&server.Options{
		ServerName: "headroom", DontListen: true, NoSigs: true, MaxPayload: queue.MaxMessage + 16<<10,
		JetStream: true, StoreDir: e.o.Dir, SyncAlways: true,
		JetStreamMaxStore: e.o.MaxBytes + e.o.DeadBytes + 16<<20, JetStreamMaxMemory: 16 << 20,
	})
	if err != nil {
		return err
	}
	s.SetLoggerV2(&ear{e: e, heard: map[string]bool{}}, false, false, false)
	s.Start()
	fail := func(err error) error {
		s.Shutdown()
		s.WaitForShutdown()
		return err
	}
	if !s.ReadyForConnections(startWithin) {
		return fail(errors.New("the server within did not start"))
	}
	if c := s.JetStreamConfig(); c == nil || !c.SyncAlways {
		return fail(errors.New("the server within would acknowledge before fsync"))
	}
	nc, err := nats.Connect("", nats.InProcessServer(s), nats.Name("headroom"), nats.MaxReconnects(-1))
	if err != nil {
		return fail(err)
	}
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	g, err := begin(ctx, nc, e.o, true, 1)
	if err != nil {
		nc.Close()
		return fail(err)
	}
	e.journal.compare(ctx, g, &e.line)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.server, e.now, e.pause = s, g, nil
	return nil
}

// broken pauses after an error of Put and starts anew when the disk takes
// data.
func (e *engine) broken(g *generation, cause error) error {
	kind := queue.ErrStopped
	if text := cause.Error(); strings.Contains(text, "no space left") || strings.Contains(text, "quota") || !queue.Writable(e.o.Dir, e.o.MinFree) {
		kind = queue.ErrDiskFull
	}
	err := fmt.Errorf("put message: %w: %w", kind, cause)
	e.mu.Lock()
	first := e.now == g && e.pause == nil && !e.closed
	if first {
		e.pause = err
		e.mending.Add(1)
	}
	e.mu.Unlock()
	if first {
		e.note("pauses: %v; looks each second whether it can go on", cause)
		go e.mend(g)
	}
	return err
}

func (e *engine) mend(g *generation) {
	defer e.mending.Done()
	g.nc.Close()
	e.server.Shutdown()
	e.server.WaitForShutdown()
	for {
		e.sleep(context.Background(), time.Second)
		if e.isClosed() {
			return
		}
		if !queue.Writable(e.o.Dir, e.o.MinFree) {
			continue
		}
		if err := e.start(context.Background()); err != nil {
			e.note("cannot go on yet: %v", err)
			continue
		}
		e.note("goes on: the disk takes data again")
		return
	}
}

func (e *engine) close() error {
	e.mending.Wait()
	if e.pause == nil {
		e.journal.save(context.Background(), e.now)
		e.now.nc.Close()
		e.server.Shutdown()
		e.server.WaitForShutdown()
	}
	return e.release()
}

// ear takes what the server would write to its log; warnings and errors reach
// a person, each once.
type ear struct {
	e     *engine
	mu    sync.Mutex
	heard map[string]bool
}

func (r *ear) tell(form string, args ...any) {
	text := fmt.Sprintf(form, args...)
	r.mu.Lock()
	known := r.heard[text] || len(r.heard) > 200
	r.heard[text] = true
	r.mu.Unlock()
	if !known {
		r.e.note("nats-server: %s", strings.ReplaceAll(text, filepath.Clean(r.e.o.Dir), "…"))
	}
}

// Noticef, Debugf and Tracef drop; the others tell. They are server.Logger.
func (r *ear) Noticef(string, ...any)          {}
func (r *ear) Debugf(string, ...any)           {}
func (r *ear) Tracef(string, ...any)           {}
func (r *ear) Warnf(form string, args ...any)  { r.tell(form, args...) }
func (r *ear) Errorf(form string, args ...any) { r.tell(form, args...) }
func (r *ear) Fatalf(form string, args ...any) { r.tell(form, args...) }
