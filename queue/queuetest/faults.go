package queuetest

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"headroom/queue"
)

// FullDisk fills a disk of 8 MiB (as root: it mounts one), frees it, and wants
// the queue to pause, say so, go on by itself, and lose nothing: neither what
// was acknowledged before nor after.
func FullDisk(t *testing.T, k Kind) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "size=8m"); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Unmount(dir, unix.MNT_DETACH) }()
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 3<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	o := queue.Options{Dir: filepath.Join(dir, "queue"), MaxBytes: 256 << 20, MinFree: -1, Lease: time.Minute}
	q := k.Open(t, o)
	acked := map[uint64]bool{}
	n := uint64(0)
	for ; ; n++ {
		err := q.Put(ctxOf(t), Payload(n, 40_000))
		if err != nil {
			if !errors.Is(err, queue.ErrDiskFull) {
				t.Fatalf("put %d on a full disk: %v", n, err)
			}
			break
		}
		acked[n] = true
	}
	if s, err := q.Status(ctxOf(t)); err != nil || s.Paused == "" || s.Refused == 0 {
		t.Errorf("status on a full disk: %+v, %v", s, err)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	freed := time.Now()
	for ; ; time.Sleep(100 * time.Millisecond) {
		n++
		if err := q.Put(ctxOf(t), Payload(n, 40_000)); err == nil {
			acked[n] = true
			break
		} else if time.Since(freed) > time.Minute {
			t.Fatalf("a minute after the disk has room: %v", err)
		}
	}
	t.Logf("%d messages before it was full; took again %s after there was room", len(acked)-1, time.Since(freed).Round(100*time.Millisecond))
	for range 3 {
		n++
		if err := q.Put(ctxOf(t), Payload(n, 40_000)); err != nil {
			t.Fatal(err)
		}
		acked[n] = true
	}
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	q = k.open(t, o)
	for len(acked) > 0 {
		for _, m := range fetch(t, q, 1) {
			n := Number(m.Data())
			if string(m.Data()) != string(Payload(n, 40_000)) {
				t.Fatalf("message %d is not what was put", n)
			}
			delete(acked, n)
			ack(t, m)
		}
	}
}
