package watch

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"headroom/metric"
	"headroom/store"
	"headroom/testkit/need"
)

// TestAServerThatDiedBeforeItsStoreWasOpened: the next try starts it again.
func TestAServerThatDiedBeforeItsStoreWasOpened(t *testing.T) {
	need.Have(t, "pg")
	h := newHouse(Options{Dirs: testDirs(t), Host: "db1", Say: func(s string) { t.Log(s) }})
	server, err := h.startServer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	h.server = server
	t.Cleanup(h.close)
	if err := syscall.Kill(server.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	need.Eventually(t, 20*time.Second, "the server is dead", func() bool { return !server.Running() })
	if _, err := h.open(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestAStoreThatCannotBeOpened: whatever the reason, even one that of a batch
// would be for good, batches wait.
func TestAStoreThatCannotBeOpened(t *testing.T) {
	h := newHouse(Options{Say: func(s string) { t.Log(s) }})
	// What the server said when it was killed while its schema was made.
	h.set(nil, fmt.Errorf("open store: bring the schema from version 1 to 4: %w", &pgconn.PgError{Code: "23505", Message: "duplicate key value violates unique constraint \"store_version_pkey\""}))
	q := testQueue(t)
	put(t, q, 3)
	w := &worker{decoder: &metric.Decoder{}, queue: q, sink: h, permanent: store.IsPermanent, say: func(s string) { t.Log(s) }}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error)
	go func() { ended <- w.run(ctx) }()
	need.Eventually(t, 5*time.Second, "the trouble is known", func() bool { return w.State().Trouble != "" || w.State().Killed > 0 })
	stop()
	if err := <-ended; err != nil || w.State().Killed != 0 {
		t.Errorf("%d set aside, %v", w.State().Killed, err)
	}
}
