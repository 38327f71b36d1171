package watch

import (
	"syscall"
	"testing"
	"time"

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
