package queue_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"headroom/queue"
	"headroom/queue/queuetest"
	"headroom/testkit/need"
)

func openLog(t testing.TB, o queue.Options) queue.Queue {
	t.Helper()
	q, err := queue.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func TestLog(t *testing.T) {
	queuetest.Run(t, queuetest.Kind{Open: openLog, Small: 1 << 20})
}

func TestFullDisk(t *testing.T) {
	need.Have(t, "root")
	queuetest.FullDisk(t, queuetest.Kind{Open: openLog})
}

// Where the queue itself fills the disk, taking messages from it makes room.
func TestRoomByReading(t *testing.T) {
	need.Have(t, "root")
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=2m"); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Unmount(dir, unix.MNT_DETACH) }()
	o := queue.Options{Dir: dir + "/q", MinFree: -1, SegmentBytes: 200_000}
	q := openLog(t, o)
	n, err := uint64(0), error(nil)
	for ; err == nil; n++ {
		err = q.Put(t.Context(), queuetest.Payload(n, 20_000))
	}
	if !errors.Is(err, queue.ErrDiskFull) {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/rest", make([]byte, 2<<20), 0o600); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("the disk should be full: %v", err)
	}
	if err := q.Close(); err != nil && !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
	q = openLog(t, o) // a full disk is no reason not to start
	defer q.Close()
	for range n / 2 {
		ms, err := q.Fetch(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		if err := ms[0].Ack(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	need.Eventually(t, 20*time.Second, "a message is taken again", func() bool {
		return q.Put(t.Context(), queuetest.Payload(n, 20_000)) == nil
	})
}

// What is left for others stays free.
func TestMinFree(t *testing.T) {
	dir := t.TempDir()
	free := int64(queue.Free(dir))
	q := openLog(t, queue.Options{Dir: dir, MinFree: free + 1<<40})
	defer q.Close()
	if err := q.Put(t.Context(), []byte("x")); !errors.Is(err, queue.ErrDiskFull) {
		t.Fatalf("%v, want ErrDiskFull", err)
	}
	if s, err := q.Status(t.Context()); err != nil || s.Paused == "" || len(s.Notes) != 1 {
		t.Errorf("%+v, %v", s, err)
	} else if strings.Count(s.Paused, "the disk is full") != 1 || !strings.Contains(s.Paused, " TB are left for others") {
		t.Errorf("it is not said once, and in units that people read: %s", s.Paused)
	}
}

func TestHeld(t *testing.T) {
	o := queue.Options{Dir: t.TempDir()}
	q := openLog(t, o)
	_, err := queue.Open(t.Context(), o)
	if !errors.Is(err, queue.ErrHeld) || !strings.Contains(err.Error(), fmt.Sprint(os.Getpid())) {
		t.Fatalf("%v, want ErrHeld with process %d", err, os.Getpid())
	}
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	openLog(t, o).Close()
}

// Folders and files are for their owner only, and empty queues take no room.
func TestFilesAreOurs(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "queue")
	q := openLog(t, queue.Options{Dir: dir})
	for n := range uint64(40) {
		if err := q.Put(t.Context(), queuetest.Payload(n, 1<<20)); err != nil {
			t.Fatal(err)
		}
	}
	ms, err := q.Fetch(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := ms[0].Kill(t.Context(), "no"); err != nil {
		t.Fatal(err)
	}
	for got := 1; got < 40; {
		ms, err := q.Fetch(t.Context(), 40)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range ms {
			if err := m.Ack(t.Context()); err != nil {
				t.Fatal(err)
			}
			got++
		}
	}
	if err := q.Put(t.Context(), queuetest.Payload(1, 100)); err != nil {
		t.Fatal(err)
	}
	need.Eventually(t, 10*time.Second, "files of which nothing is left are removed", func() bool {
		s, err := q.Status(t.Context())
		return err == nil && s.Bytes < 1000 && s.Messages == 1
	})
	defer q.Close()
	err = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %s", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// The dead letters are bounded; the oldest go, and that is counted.
func TestDeadLettersAreBounded(t *testing.T) {
	q := openLog(t, queue.Options{Dir: t.TempDir(), DeadBytes: 50_000})
	defer q.Close()
	for n := range uint64(12) {
		if err := q.Put(t.Context(), queuetest.Payload(n, 10_000)); err != nil {
			t.Fatal(err)
		}
		ms, err := q.Fetch(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		if err := ms[0].Kill(t.Context(), "no"); err != nil {
			t.Fatal(err)
		}
	}
	s, err := q.Status(t.Context())
	if err != nil || s.Dead != 4 || s.DeadDropped != 8 || s.Killed != 12 {
		t.Errorf("%+v, %v", s, err)
	}
	dead, err := q.Dead(t.Context(), "", 100)
	if err != nil || len(dead) != 4 || queuetest.Number(dead[3].Data) != 8 {
		t.Errorf("%d dead letters, %v", len(dead), err)
	}
}

// Opening and closing leaves no file open and no goroutine behind.
func TestNothingIsLeft(t *testing.T) {
	dir := t.TempDir()
	use := func() {
		q := openLog(t, queue.Options{Dir: dir, SegmentBytes: 5000})
		for n := range uint64(10) {
			if err := q.Put(t.Context(), queuetest.Payload(n, 2000)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := q.Fetch(t.Context(), 7); err != nil {
			t.Fatal(err)
		}
		if err := q.Close(); err != nil {
			t.Fatal(err)
		}
	}
	open := func() int {
		fds, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, fd := range fds {
			if to, err := os.Readlink("/proc/self/fd/" + fd.Name()); err == nil && strings.HasPrefix(to, dir) {
				n++
			}
		}
		return n
	}
	use()
	before := runtime.NumGoroutine()
	for range 20 {
		use()
	}
	if n := open(); n > 0 {
		t.Errorf("%d files are still open", n)
	}
	need.Eventually(t, 5*time.Second, "as many goroutines as before", func() bool { return runtime.NumGoroutine() <= before+2 })
}

func TestPowerCut(t *testing.T) {
	need.Have(t, "root", "loop")
	queuetest.PowerCut(t, queuetest.Kind{Open: openLog}, 8)
}
