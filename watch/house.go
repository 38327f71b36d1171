package watch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"headroom/fail"
	"headroom/host"
	"headroom/metric"
	"headroom/pglocal"
	"headroom/store"
)

// storeSettings suit a small server that only takes batches and answers
// charts. Durability is PostgreSQL's default: a batch leaves the queue only
// when its commit is on disk.
var storeSettings = map[string]string{
	"shared_buffers":                 "40MB", // the page cache has the rest
	"max_connections":                "40",
	"max_wal_size":                   "1GB",
	"wal_level":                      "minimal",
	"max_wal_senders":                "0",
	"wal_compression":                "on",
	"jit":                            "off",
	"random_page_cost":               "1.1",
	"log_checkpoints":                "off",
	"log_min_messages":               "warning",
	"autovacuum_naptime":             "5min",
	"track_io_timing":                "on",
	"superuser_reserved_connections": "3",
}

// headBytes is the memory for points before they are packed: a smaller part of
// an hour is packed at a time while many come at once, after an outage.
const headBytes = 72 << 20

// errStarting is why there is no store in the first seconds.
var errStarting = errors.New("the store is starting")

// house holds the store, and the private server below it where none was
// named. Both may come and go; the house stays.
type house struct {
	o   Options
	say func(string)

	mu     sync.RWMutex
	store  *store.Store
	why    error // why store is nil
	server *pglocal.Server
	known  func(ids []int64) // told of the series that an opened store has; may be nil
	gone   chan struct{}     // the open store's tables are not there any more
}

func newHouse(o Options) *house {
	return &house{o: o, say: o.Say, why: errStarting, gone: make(chan struct{}, 1)}
}

// notOpen is an error of a house without an open store; the house has told
// people why.
type notOpen struct{ error }

func (e notOpen) Unwrap() error { return e.error }

// get returns the store, or why there is none now.
func (h *house) get() (*store.Store, error) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if h.store == nil {
		return nil, notOpen{h.why}
	}
	return h.store, nil
}

// Write implements sink.
func (h *house) Write(ctx context.Context, batches []*metric.Batch) error {
	s, err := h.get()
	if err != nil {
		return err
	}
	err = s.Write(ctx, batches)
	if store.IsGone(err) {
		select {
		case h.gone <- struct{}{}:
		default: // noticed already
		}
	}
	return host.Plainly(err)
}

// run opens the store, keeps it up and tidy until the context ends, and closes
// it. What the store can never do (another process has it, its schema is
// newer) ends it with an error; all else is tried again.
func (h *house) run(ctx context.Context) error {
	defer h.close()
	pause, said := retryFirst, ""
	for ctx.Err() == nil {
		began := time.Now()
		s, err := h.open(ctx)
		if err == nil {
			if err = h.tend(ctx, s); err != nil && time.Since(began) > time.Minute {
				pause, said = retryFirst, ""
			}
		}
		if ctx.Err() != nil {
			return nil
		}
		if store.IsRefused(err) || errors.Is(err, pglocal.ErrInUse) {
			return fail.With(err, fail.Locked)
		}
		err = host.Plainly(err)
		h.set(nil, err)
		if now := withoutDigits(err.Error()); now != said {
			said = now
			h.say("the store cannot be used: " + words(err) + ". Samples wait in the queue, and it is tried again")
		}
		pause = wait(ctx, pause)
	}
	return nil
}

// withoutDigits makes texts equal that differ in figures only.
func withoutDigits(text string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, text)
}

// words is an error and its way out on one line.
func words(err error) string {
	text := strings.Join(strings.Fields(err.Error()), " ")
	if hint := fail.HintOf(err); hint != "" {
		text += "; " + hint
	}
	return text
}

func (h *house) set(s *store.Store, why error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.store, h.why = s, why
}

// open starts the private server if there is one, and opens the store.
func (h *house) open(ctx context.Context) (*store.Store, error) {
	dsn := h.o.Store
	if dsn == "" {
		if h.server == nil {
			s, err := h.startServer(ctx)
			if err != nil {
				return nil, err
			}
			h.mu.Lock()
			h.server = s
			h.mu.Unlock()
		} else if !h.server.Running() { // it died before the store could be opened
			if err := h.server.Restart(ctx); err != nil {
				return nil, err
			}
		}
		dsn = h.server.DSN()
	}
	keep := store.DefaultRetention()
	if h.o.Retention != "" {
		var err error
		if keep, err = store.ParseRetention(h.o.Retention); err != nil {
			return nil, err
		}
	}
	s, err := store.Open(ctx, store.Options{DSN: dsn, Retention: keep, Holder: holder(h.o.Host), HeadBytes: headBytes, Log: h.say})
	if err != nil {
		return nil, err
	}
	if ids, err := s.IDs(ctx); err != nil {
		h.say("note: the store's series count as new until they come: " + err.Error())
	} else if h.known != nil {
		h.known(ids)
	}
	h.set(s, nil)
	return s, nil
}

// holder is told to a second one; the store adds process and time.
func holder(name string) string { return "headroom up on " + name }

func (h *house) startServer(ctx context.Context) (*pglocal.Server, error) {
	// The server's account has to pass through the folder, and to see nothing
	// in it: what lies beside has modes of its own.
	if err := os.MkdirAll(h.o.Dirs.State, 0o711); err != nil {
		return nil, fmt.Errorf("make the store's folder: %w", err)
	}
	if fi, err := os.Stat(h.o.Dirs.State); err == nil && fi.Mode().Perm()&0o011 != 0o011 {
		if err := os.Chmod(h.o.Dirs.State, fi.Mode().Perm()|0o011); err != nil {
			return nil, fmt.Errorf("make the store's folder: %w", err)
		}
	}
	return pglocal.Keep(ctx, filepath.Join(h.o.Dirs.State, "store"), pglocal.Options{Name: "headroom store", Settings: storeSettings, Progress: h.say})
}

// errGone is why an open store was given up.
var errGone = errors.New("its tables are gone; they are made anew")

// tend keeps partitions, packs and roll-ups up, and the private server alive,
// until the context ends (nil) or the store's tables are gone (errGone): then
// the store is closed.
func (h *house) tend(ctx context.Context, s *store.Store) error {
	select {
	case <-h.gone: // said of the store before this one
	default:
	}
	inner, stop := context.WithCancel(ctx)
	var ended sync.WaitGroup
	defer ended.Wait()
	defer stop()
	if h.server != nil {
		ended.Go(func() { h.guard(inner) })
	}
	ended.Go(func() { s.Run(inner) })
	select {
	case <-ctx.Done():
		return nil
	case <-h.gone:
	}
	h.set(nil, errGone)
	stop()
	ended.Wait()
	s.Close()
	return errGone
}

// guard starts the private server again when it died.
func (h *house) guard(ctx context.Context) {
	pause := retryFirst
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if h.server.Running() {
			pause = retryFirst
			continue
		}
		h.say("the store's PostgreSQL has ended by itself; it is started again")
		if err := h.server.Restart(ctx); err != nil && ctx.Err() == nil {
			h.say(err.Error())
			pause = wait(ctx, pause)
		}
	}
}

func (h *house) close() {
	h.mu.Lock()
	s := h.store
	h.store, h.why = nil, errors.New("the store is closed: Headroom is stopping")
	h.mu.Unlock()
	if s != nil {
		s.Close()
	}
	if h.server != nil {
		if err := h.server.Stop(); err != nil {
			h.say(err.Error())
		}
	}
}
