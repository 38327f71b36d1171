package api

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang/snappy"
	"github.com/klauspost/compress/zstd"

	"headroom/testkit/need"
)

// TestSlowSendersLeaveRoom: a token with which many bodies come slowly does not
// hold up another one, and is told why it waits.
func TestSlowSendersLeaveRoom(t *testing.T) {
	s := serve(t, func(p *Parts) { p.Limits.Requests, p.Limits.Memory = 8, 8<<20 })
	slow := func() net.Conn {
		t.Helper()
		c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		fmt.Fprint(c, "POST /api/v1/ingest HTTP/1.1\r\nHost: x\r\nTest-Token: slow\r\nContent-Length: 1000\r\n\r\n")
		return c
	}
	for range 20 {
		slow()
	}
	need.Eventually(t, 10*time.Second, "it has its half", func() bool { return s.slots.held() == 4<<20 })
	for range 3 {
		if status, r := s.ingest(t, `{"name":"x","value":1}`, "Test-Token", "quick"); status != 200 {
			t.Errorf("another token: %d %+v", status, r)
		}
	}
	status, text, h := s.do(t, "POST", "/api/v1/ingest", []byte(`{"name":"x","value":1}`), "Test-Token", "slow")
	if status != 503 || h.Get("Retry-After") == "" || !strings.Contains(string(text), "take 4 of the 8 MiB that they may, those with this token 4") {
		t.Errorf("the same token: %d %s", status, text)
	}
}

func (p *places) held() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.taken
}

// Whoever gives up waiting leaves nothing behind; who has nothing gets a place
// of any size.
func TestPlacesAreGivenBack(t *testing.T) {
	p := newPlaces(100)
	take := func(ctx context.Context, who string, n int64) (end func()) {
		t.Helper()
		end, err := p.take(ctx, who, n)
		if err != nil {
			t.Fatalf("%s, %d: %v", who, n, err)
		}
		return end
	}
	gone, stop := context.WithCancel(t.Context())
	stop()
	none := func(who string, n int64) {
		t.Helper()
		if _, err := p.take(gone, who, n); err == nil {
			t.Errorf("%s has %d that there are not", who, n)
		}
	}
	a := take(gone, "a", 80)
	none("a", 1)
	none("b", 21)
	b := take(gone, "b", 20)
	got := make(chan func())
	go func() { got <- take(t.Context(), "c", 1000) }()
	a()
	none("c", 81)
	b()
	c := <-got
	if p.held() != 100 {
		t.Errorf("%d are held", p.held())
	}
	c()
	if p.held() != 0 || len(p.of) != 0 {
		t.Errorf("%d, of %d tokens, are left", p.held(), len(p.of))
	}
}

// TestBombsTakeLittleMemory: many bodies at once, small as sent and huge
// unpacked, do not add up.
func TestBombsTakeLittleMemory(t *testing.T) {
	s := serve(t, nil)
	var packed bytes.Buffer
	z, err := zstd.NewWriter(&packed)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.CopyN(z, zeros{}, 256<<20); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	bombs := map[string][]byte{"snappy": snappy.Encode(nil, make([]byte, 60<<20)), "zstd": packed.Bytes()}
	var most atomic.Int64
	stop := make(chan struct{})
	var watch, all sync.WaitGroup
	watch.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
				most.Store(max(most.Load(), s.slots.held()))
			}
		}
	})
	for coding, body := range bombs {
		for i := range 12 {
			all.Go(func() {
				status, text, _ := s.do(t, "POST", map[string]string{"snappy": "/api/v1/write", "zstd": "/api/v1/ingest"}[coding], body, "Content-Encoding", coding, "Test-Token", fmt.Sprint(i%3))
				if status == 200 || status == 500 {
					t.Errorf("%s: %d %.200s", coding, status, text)
				}
			})
		}
	}
	all.Wait()
	close(stop)
	watch.Wait()
	if most.Load() > s.Limits.Memory || s.slots.held() != 0 {
		t.Errorf("%d bytes were taken at once, %d are left; at most %d may be", most.Load(), s.slots.held(), s.Limits.Memory)
	}
}
