package loop

import (
	"context"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// TestSharedClients: clients that wait through Waiter share threads, each gets
// its own answers, and the count adds up.
func TestSharedClients(t *testing.T) {
	const clients = 5
	var ours, theirs [clients]int
	for i := range clients {
		p, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
		if err != nil {
			t.Fatal(err)
		}
		ours[i], theirs[i] = p[0], p[1]
		t.Cleanup(func() { syscall.Close(p[0]); syscall.Close(p[1]) })
		go func() { // echoes
			b := make([]byte, 1)
			for {
				if n, err := syscall.Read(p[1], b); n <= 0 || err != nil {
					return
				}
				if _, err := syscall.Write(p[1], b); err != nil {
					return
				}
			}
		}()
	}
	var shared atomic.Int64
	var sent [clients]byte
	res, err := Run(context.Background(), Options{Clients: clients, Transactions: 200, Shared: true}, func(ctx context.Context, i int) (int, error) {
		wait := Waiter(ctx)
		if wait != nil {
			shared.Add(1)
		}
		sent[i]++
		if _, err := syscall.Write(ours[i], []byte{sent[i]}); err != nil {
			return 0, err
		}
		if wait != nil {
			wait(ours[i])
		}
		b := make([]byte, 1)
		if _, err := syscall.Read(ours[i], b); err != nil {
			return 0, err
		}
		if b[0] != sent[i] {
			t.Errorf("client %d got %d for %d", i, b[0], sent[i])
		}
		return 1, nil
	})
	if err != nil || res.Done != clients*200 || res.All != res.Done {
		t.Errorf("%+v, %v", res, err)
	}
	if max(runtime.NumCPU()/2, 2) < clients && shared.Load() == 0 {
		t.Error("no client shared a thread")
	}
}

// TestSharedClientsRestAndEnd: rates and throttles hold for clients that share
// a thread, and the end of ctx ends those that sleep.
func TestSharedClientsRestAndEnd(t *testing.T) {
	res, err := Run(context.Background(), Options{Clients: 6, Duration: 300 * time.Millisecond, Rate: 100, Even: true, Shared: true},
		func(context.Context, int) (int, error) { return 1, nil })
	if err != nil || res.Done < 25 || res.Done > 31 {
		t.Errorf("at 100/s for 0.3 s: %+v, %v", res, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(50*time.Millisecond, cancel)
	start := time.Now()
	if _, err = Run(ctx, Options{Clients: 6, Duration: time.Minute, Rate: 0.01, Shared: true},
		func(context.Context, int) (int, error) { return 1, nil }); err == nil || time.Since(start) > 10*time.Second {
		t.Errorf("ended with %v after %s", err, time.Since(start))
	}
}
