package jetstream_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"headroom/queue"
	"headroom/queue/jetstream"
	"headroom/queue/queuetest"
	"headroom/testkit/need"
)

func embedded(t testing.TB, o queue.Options) queue.Queue {
	t.Helper()
	q, err := jetstream.OpenEmbedded(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func TestEmbedded(t *testing.T) {
	queuetest.Run(t, queuetest.Kind{Open: embedded, Small: 1 << 20, Slow: true})
}

func TestFullDisk(t *testing.T) {
	need.Have(t, "root")
	queuetest.FullDisk(t, queuetest.Kind{Open: embedded})
}

func TestHeld(t *testing.T) {
	o := queue.Options{Dir: t.TempDir()}
	q := embedded(t, o)
	defer q.Close()
	if _, err := jetstream.OpenEmbedded(t.Context(), o); !errors.Is(err, queue.ErrHeld) || !strings.Contains(err.Error(), fmt.Sprint(os.Getpid())) {
		t.Fatalf("%v, want ErrHeld with process %d", err, os.Getpid())
	}
}

// TestDamage measures what a flipped bit costs, which is why this kind is not
// the default: the queue must open and work afterwards whatever it lost.
func TestDamage(t *testing.T) {
	for _, end := range []string{"closed", "killed"} {
		dir := t.TempDir()
		q := embedded(t, queue.Options{Dir: dir})
		const n = 40
		for i := range uint64(n) {
			if err := q.Put(t.Context(), queuetest.Payload(i, 1000)); err != nil {
				t.Fatal(err)
			}
		}
		left := dir
		if end == "killed" { // what is on disk while it runs
			left = t.TempDir()
			if err := os.CopyFS(left, os.DirFS(dir)); err != nil {
				t.Fatal(err)
			}
		}
		if err := q.Close(); err != nil {
			t.Fatal(err)
		}
		worst, silent := map[string]int{}, map[string]int{}
		for _, place := range places(t, left) {
			for _, part := range []int{10, 50, 90} {
				got, s := damaged(t, left, place, part)
				name := filepath.Base(place)
				worst[name] = max(worst[name], n-got)
				if got < n && s.Lost == 0 && len(s.Notes) == 0 {
					silent[name]++
				}
			}
		}
		t.Logf("%s: one bit flipped, most messages of %d lost by file: %v; lost without a word: %v", end, n, worst, silent)
		if worst["1.blk"] < 2 {
			t.Errorf("a flipped bit now costs %d messages: reconsider which kind is the default", worst["1.blk"])
		}
	}
}

func places(t *testing.T, dir string) []string {
	var out []string
	err := filepath.WalkDir(filepath.Join(dir, "jetstream", "$G", "streams", "HEADROOM"), func(path string, d os.DirEntry, err error) error {
		if info, e := d.Info(); err == nil && e == nil && d.Type().IsRegular() && info.Size() > 0 && !strings.Contains(path, "obs") {
			rel, _ := filepath.Rel(dir, path)
			out = append(out, rel)
		}
		return err
	})
	if err != nil || len(out) < 2 {
		t.Fatal(out, err)
	}
	return out
}

// damaged flips a bit at a hundredth of a file and returns how many messages
// come, and the status.
func damaged(t *testing.T, dir, place string, percent int) (int, queue.Status) {
	t.Helper()
	x := t.TempDir()
	if err := os.CopyFS(x, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	f := filepath.Join(x, place)
	raw, err := os.ReadFile(f)
	if err != nil {
		t.Fatal(err)
	}
	raw[len(raw)*percent/100] ^= 1
	if err := os.WriteFile(f, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	q := embedded(t, queue.Options{Dir: x})
	defer q.Close()
	if err := q.Put(t.Context(), queuetest.Payload(99, 10)); err != nil {
		t.Fatalf("%s: put afterwards: %v", place, err)
	}
	got := 0
	for {
		ctx, stop := context.WithTimeout(t.Context(), 300*time.Millisecond)
		ms, err := q.Fetch(ctx, 64)
		stop()
		if err != nil {
			break
		}
		for _, m := range ms {
			if queuetest.Number(m.Data()) != 99 {
				got++
			}
		}
	}
	s, err := q.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return got, s
}

func TestPowerCut(t *testing.T) {
	need.Have(t, "root", "loop")
	queuetest.PowerCut(t, queuetest.Kind{Open: embedded}, 4)
}
