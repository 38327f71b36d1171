package watch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"headroom/metric"
	"headroom/pglocal"
	"headroom/store"
)

// storeSettings suit a small server that only takes batches and answers
// charts. Durability is PostgreSQL's default: a batch leaves the queue only
// when its commit is on disk.
var storeSettings = map[string]string{
	"shared_buffers":                 "128MB",
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
}

func newHouse(o Options) *house { return &house{o: o, say: o.Say, why: errStarting} }

// get returns the store, or why there is none now.
func (h *house) get() (*store.Store, error) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if h.store == nil {
		return nil, h.why
	}
	return h.store, nil
}

// Write implements sink.
func (h *house) Write(ctx context.Context, batches []*metric.Batch) error {
	s, err := h.get()
	if err != nil {
		return err
	}
	return s.Write(ctx, batches)
}

// run opens the store, keeps it up and tidy until the context ends, and closes
// it. What the store can never do (another process has it, its schema is
// newer) ends it with an error; all else is tried again.
func (h *house) run(ctx context.Context) error {
	defer h.close()
	pause := retryFirst
	said := false
	for ctx.Err() == nil {
		s, err := h.open(ctx)
		if err == nil {
			return h.tend(ctx, s)
		}
		if ctx.Err() != nil {
			return nil
		}
		if store.IsRefused(err) || errors.Is(err, pglocal.ErrInUse) {
			return err
		}
		h.set(nil, err)
		if !said {
			said = true
			h.say(fmt.Sprintf("the store cannot be opened: %v; samples wait in the queue, and it is tried again", err))
		}
		pause = wait(ctx, pause)
	}
	return nil
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
	s, err := store.Open(ctx, store.Options{DSN: dsn, Retention: keep, Holder: holder(h.o.Host), Log: h.say})
	if err != nil {
		return nil, err
	}
	h.set(s, nil)
	return s, nil
}

func holder(name string) string {
	return fmt.Sprintf("headroom up on %s, process %d, since %s", name, os.Getpid(), time.Now().UTC().Format(time.RFC3339))
}

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

// tend keeps partitions, packs and roll-ups up, and the private server alive.
func (h *house) tend(ctx context.Context, s *store.Store) error {
	var ended sync.WaitGroup
	defer ended.Wait()
	if h.server != nil {
		ended.Go(func() { h.guard(ctx) })
	}
	s.Run(ctx)
	return nil
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
