package queuetest

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"headroom/host"
	"headroom/queue"
)

// shutdown is the ioctl that stops a file system at once (FS_IOC_SHUTDOWN),
// and the flag that even its journal is not flushed: what was not synced is as
// after loss of power. File systems are themselves tested so.
const (
	shutdown   = 0x8004587d
	noLogFlush = 2
)

// PowerCut stops an ext4 file system under four writers again and again, mounts
// it anew and wants all that was acknowledged. It needs root and loop devices.
func PowerCut(t *testing.T, k Kind, cuts int) {
	dir := t.TempDir()
	image, at := filepath.Join(dir, "image"), filepath.Join(dir, "mounted")
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(image, 512<<20); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(at, 0o700); err != nil {
		t.Fatal(err)
	}
	command(t, "mkfs.ext4", "-q", "-F", image)
	t.Cleanup(func() { _ = unix.Unmount(at, unix.MNT_DETACH) }) // where the test fails in between
	o := queue.Options{Dir: filepath.Join(at, "queue"), MaxBytes: 256 << 20, SegmentBytes: 256 << 10, MinFree: -1, Lease: time.Hour}
	acked, tried := map[uint64]bool{}, map[uint64]bool{}
	for cut := range cuts {
		command(t, "mount", "-o", "loop", image, at)
		q := k.Open(t, o)
		drain(t, q, acked, tried, cut)
		putUntilCut(t, q, at, uint64(cut)<<32, acked, tried)
		_ = q.Close()
		command(t, "umount", at)
		released(t, image)
	}
	command(t, "mount", "-o", "loop", image, at)
	q := k.Open(t, o)
	drain(t, q, acked, tried, cuts)
	if err := q.Close(); err != nil {
		t.Error(err)
	}
	command(t, "umount", at)
	t.Logf("%d cuts, %d messages acknowledged, none lost", cuts, len(tried))
	if len(tried) < 20*cuts {
		t.Errorf("only %d messages were put: too few to tell", len(tried))
	}
}

// released waits until no loop device has the image: another program's mount
// namespace may hold on to the file system that was stopped for a moment, and a
// new mount would get that one.
func released(t *testing.T, image string) {
	t.Helper()
	held := func() bool {
		files, _ := filepath.Glob("/sys/block/loop*/loop/backing_file") // the pattern is right
		for _, f := range files {
			if b, err := os.ReadFile(f); err == nil && strings.TrimSpace(string(b)) == image {
				return true
			}
		}
		return false
	}
	for end := time.Now().Add(time.Minute); held(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("another program holds on to the file system for a minute")
		}
	}
}

// putUntilCut has four writers, and cuts in the midst of their work. What is
// acknowledged while the cut is being made is not counted: ext4 may answer an
// fsync that is under way then with success, since the transaction that it
// waits for is gone. Real loss of power leaves nobody to be answered.
func putUntilCut(t *testing.T, q queue.Queue, at string, first uint64, acked, tried map[uint64]bool) {
	t.Helper()
	var mu sync.Mutex
	cutting := false
	var wg sync.WaitGroup
	ctx, stop := context.WithCancel(ctxOf(t))
	for p := range uint64(4) {
		wg.Go(func() {
			for i := uint64(0); ; i++ {
				n := first | p<<24 | i
				mu.Lock()
				tried[n] = true
				mu.Unlock()
				if q.Put(ctx, Payload(n, 200+int(n%7)*1500)) != nil {
					return
				}
				mu.Lock()
				if !cutting {
					acked[n] = true
				}
				mu.Unlock()
			}
		})
	}
	time.Sleep(time.Duration(50+rand.IntN(250)) * time.Millisecond)
	f, err := os.Open(at)
	if err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	cutting = true
	mu.Unlock()
	flag := noLogFlush
	if err := unix.IoctlSetPointerInt(int(f.Fd()), shutdown, flag); err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
	time.AfterFunc(2*time.Second, stop) // for kinds that do not notice
	wg.Wait()
	stop()
}

// drain takes all that is there and compares. Messages that were taken may come
// again: their acknowledgement may not have reached the disk.
func drain(t *testing.T, q queue.Queue, acked, tried map[uint64]bool, cut int) {
	t.Helper()
	for {
		ctx, stop := context.WithTimeout(t.Context(), 500*time.Millisecond)
		ms, err := q.Fetch(ctx, 64)
		stop()
		if err != nil {
			break
		}
		for _, m := range ms {
			n := Number(m.Data())
			if !tried[n] || string(m.Data()) != string(Payload(n, 200+int(n%7)*1500)) {
				t.Fatalf("cut %d: message %x was never put so", cut, n)
			}
			delete(acked, n)
			ack(t, m)
		}
	}
	if len(acked) > 0 {
		s, err := q.Status(ctxOf(t))
		t.Fatalf("after cut %d: %d acknowledged messages are lost; %+v, %v", cut, len(acked), s, err)
	}
	if s, err := q.Status(ctxOf(t)); err != nil || s.Lost > 0 {
		t.Errorf("after cut %d: %+v, %v", cut, s, err)
	}
}

func command(t *testing.T, argv ...string) {
	t.Helper()
	if out, err := (host.Cmd{Argv: argv}).Run(ctxOf(t), 1<<20); err != nil {
		t.Fatalf("%v: %v: %s", argv, err, out)
	}
}
