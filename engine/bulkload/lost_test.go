package bulkload_test

import (
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"headroom/engine/bulkload"
	"headroom/testkit/need"
)

// stalled is an input that gives its first part, waits, and gives the rest.
type stalled struct {
	parts   [2]io.Reader
	waiting chan struct{} // closed when it waits
	goOn    chan struct{}
	again   atomic.Bool // it was read after the wait
	n       int
}

func (s *stalled) Read(b []byte) (int, error) {
	n, err := s.parts[s.n].Read(b)
	switch {
	case !errors.Is(err, io.EOF) || n > 0:
		return n, nil
	case s.n == 1:
		return 0, io.EOF
	}
	close(s.waiting)
	<-s.goOn
	s.n++
	s.again.Store(true)
	return s.Read(b)
}

// A load whose server ends the connection while the input waits ends at once,
// with the server's reason, and works on nothing that comes later.
func TestServerLostWhileTheInputWaits(t *testing.T) {
	b := newBench(t)
	b.exec(people)
	in := &stalled{parts: [2]io.Reader{strings.NewReader(lines(0, 60_000, "\t")), strings.NewReader(lines(60_000, 120_000, "\t"))},
		waiting: make(chan struct{}), goOn: make(chan struct{})}
	o := b.options("-", "people")
	o.Stdin, o.Atomic, o.Columns = in, true, []string{"id", "client_id", "first", "last", "-"} // not as it comes: it is worked on
	var loaded atomic.Int64
	o.Progress = func(bulkload.Progress) { loaded.Add(1) }
	over := make(chan error, 1)
	go func() {
		_, err := bulkload.Run(t.Context(), o)
		over <- err
	}()
	<-in.waiting
	need.Eventually(t, 10*time.Second, "the copy is ended", func() bool {
		return b.text("select count(pg_terminate_backend(pid)) from pg_stat_activity where query like 'copy%' and pid <> pg_backend_pid() and datname = current_database()") == "1"
	})
	select {
	case err := <-over:
		if err == nil || !strings.Contains(err.Error(), "57P01") {
			t.Errorf("it ended with %v, want the server's reason", err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("it waits for its input although the server is gone")
	}
	before := loaded.Load()
	close(in.goOn)
	need.Eventually(t, 10*time.Second, "the input is read on", func() bool { return in.again.Load() })
	time.Sleep(500 * time.Millisecond) // for whoever works on it
	if after := loaded.Load(); after != before {
		t.Errorf("%d steps of progress after the end", after-before)
	}
	b.want("select count(*) from people", "0")
}
