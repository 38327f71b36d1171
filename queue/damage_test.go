package queue_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"headroom/queue"
	"headroom/queue/queuetest"
)

// fixture makes a queue of 12 messages in three files, none acknowledged but
// the second, and returns its folder.
func fixture(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	q := openLog(t, queue.Options{Dir: dir, SegmentBytes: 400, MinFree: -1})
	for n := range uint64(12) {
		if err := q.Put(t.Context(), queuetest.Payload(n, 60)); err != nil {
			t.Fatal(err)
		}
	}
	ms, err := q.Fetch(t.Context(), 2)
	if err != nil || len(ms) != 2 {
		t.Fatal(len(ms), err)
	}
	if err := ms[1].Ack(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

func segments(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.hq1"))
	if err != nil || len(files) == 0 {
		t.Fatal("no files of messages", err)
	}
	slices.Sort(files)
	return files
}

// left opens the folder and returns which messages are there, and its status.
func left(t *testing.T, dir string) ([]uint64, queue.Status) {
	t.Helper()
	q, err := queue.Open(t.Context(), queue.Options{Dir: dir, MinFree: -1, Lease: time.Hour})
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	defer q.Close()
	var got []uint64
	ctx, stop := context.WithTimeout(t.Context(), 5*time.Second)
	defer stop()
	ms, err := q.Fetch(ctx, 100) // all that are there at once
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range ms {
		n := queuetest.Number(m.Data())
		if string(m.Data()) != string(queuetest.Payload(n, 60)) {
			t.Fatalf("message %d is not what was put", n)
		}
		got = append(got, n)
	}
	s, err := q.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if s.Messages != uint64(len(got)) {
		t.Fatalf("%d messages are said to be there, %d came", s.Messages, len(got))
	}
	if err := q.Put(t.Context(), queuetest.Payload(99, 60)); err != nil {
		t.Fatalf("put afterwards: %v", err)
	}
	return got, s
}

// whole is what the fixture holds: all but the acknowledged one.
var whole = []uint64{0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}

func clone(t *testing.T, dir string) string {
	t.Helper()
	to, err := os.MkdirTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	return to
}

// missed is how many of the fixture's messages did not come; it fails the test
// if one came twice or out of order.
func missed(t *testing.T, what string, got []uint64) int {
	t.Helper()
	if !slices.IsSorted(got) || len(slices.Compact(slices.Clone(got))) != len(got) {
		t.Fatalf("%s: came as %v", what, got)
	}
	return len(whole) - len(got)
}

// A flipped bit costs the record that it is in, and is told.
func TestEveryByteFlipped(t *testing.T) {
	t.Parallel()
	dir := fixture(t)
	files := append(segments(t, dir), filepath.Join(dir, "cursor"))
	if got, s := left(t, clone(t, dir)); missed(t, "untouched", got) != 0 || s.Lost != 0 || len(s.Notes) != 0 {
		t.Fatalf("untouched: %v %+v", got, s)
	}
	tried, quarantined := 0, 0
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for i := range raw {
			x := clone(t, dir)
			bad := slices.Clone(raw)
			bad[i] ^= 1 << (i % 8)
			if err := os.WriteFile(filepath.Join(x, filepath.Base(f)), bad, 0o600); err != nil {
				t.Fatal(err)
			}
			got, s := left(t, x)
			what := filepath.Base(f) + " flipped"
			if filepath.Base(f) == "cursor" {
				if len(got) != 12 { // the acknowledged one comes again
					t.Fatalf("%s at %d: %v", what, i, got)
				}
			} else if n := missed(t, what, got); n > 1 {
				t.Fatalf("%s at %d of %d: %d messages are lost, one is allowed: %v", what, i, len(raw), n, s.Notes)
			}
			if len(s.Notes) == 0 && len(got) != len(whole) {
				t.Fatalf("%s at %d: nothing was said", what, i)
			}
			if bad, _ := filepath.Glob(filepath.Join(x, "quarantine", "*.bad")); len(bad) > 0 {
				quarantined++
			}
			_ = os.RemoveAll(x)
			tried++
		}
	}
	t.Logf("%d flips, %d with damaged bytes kept", tried, quarantined)
	if quarantined < tried*8/10 {
		t.Errorf("only %d of %d damaged places were kept", quarantined, tried)
	}
}

// A file cut short costs the records that were cut.
func TestEveryLength(t *testing.T) {
	t.Parallel()
	dir := fixture(t)
	for _, f := range segments(t, dir) {
		raw, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		each := len(raw) / strings.Count(string(raw), "HQF1")
		for n := range raw {
			x := clone(t, dir)
			if err := os.Truncate(filepath.Join(x, filepath.Base(f)), int64(n)); err != nil {
				t.Fatal(err)
			}
			got, s := left(t, x)
			cut := (len(raw) - n + each - 1) / each
			if lost := missed(t, "cut", got); lost > cut {
				t.Fatalf("%s cut to %d of %d: %d messages are lost, %d were touched", filepath.Base(f), n, len(raw), lost, cut)
			} else if lost > 0 && (s.Lost == 0 || len(s.Notes) == 0) {
				t.Fatalf("%s cut to %d of %d: %d messages are lost, %d are counted: %v", filepath.Base(f), n, len(raw), lost, s.Lost, s.Notes)
			}
			_ = os.RemoveAll(x)
		}
	}
}

// A file of messages that is gone costs its messages, and is told.
func TestFileGone(t *testing.T) {
	dir := fixture(t)
	for i, f := range segments(t, dir) {
		x := clone(t, dir)
		if err := os.Remove(filepath.Join(x, filepath.Base(f))); err != nil {
			t.Fatal(err)
		}
		got, s := left(t, x)
		if n := missed(t, "gone", got); uint64(n) != s.Lost || n == 0 {
			t.Errorf("file %d gone: %d messages did not come, %d are counted: %v", i, n, s.Lost, s.Notes)
		}
	}
}

// Bytes that look like a frame are not one.
func TestFramesWithinMessages(t *testing.T) {
	dir := t.TempDir()
	q := openLog(t, queue.Options{Dir: dir, MinFree: -1})
	if err := q.Put(t.Context(), []byte("inner")); err != nil {
		t.Fatal(err)
	}
	inner, err := os.ReadFile(segments(t, dir)[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	other := t.TempDir()
	q = openLog(t, queue.Options{Dir: other, MinFree: -1})
	for range 2 {
		if err := q.Put(t.Context(), inner); err != nil {
			t.Fatal(err)
		}
	}
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	f := segments(t, other)[0]
	raw, err := os.ReadFile(f)
	if err != nil {
		t.Fatal(err)
	}
	raw[0] ^= 1 // the first head: a reader must search
	if err := os.WriteFile(f, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	q = openLog(t, queue.Options{Dir: other, MinFree: -1})
	defer q.Close()
	ms, err := q.Fetch(t.Context(), 10)
	if err != nil || len(ms) != 1 || string(ms[0].Data()) != string(inner) {
		t.Fatalf("%d messages, %v; want the second one alone", len(ms), err)
	}
}

func TestNewerVersionIsRefused(t *testing.T) {
	dir := fixture(t)
	f := segments(t, dir)[0]
	if err := os.Rename(f, strings.TrimSuffix(f, "1")+"2"); err != nil {
		t.Fatal(err)
	}
	if _, err := queue.Open(t.Context(), queue.Options{Dir: dir}); err == nil || !strings.Contains(err.Error(), "newer version") {
		t.Fatalf("opened files of a version to come: %v", err)
	}
}

// A dead letter that is damaged is listed as that, not put back, and can be
// dropped.
func TestDamagedDeadLetter(t *testing.T) {
	dir := t.TempDir()
	q := openLog(t, queue.Options{Dir: dir, MinFree: -1})
	defer q.Close()
	if err := q.Put(t.Context(), queuetest.Payload(1, 100)); err != nil {
		t.Fatal(err)
	}
	ms, err := q.Fetch(t.Context(), 1)
	if err == nil {
		err = ms[0].Kill(t.Context(), "bad")
	}
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "dead", "*.dead"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	raw, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	raw[len(raw)-1] ^= 1
	if err := os.WriteFile(files[0], raw, 0o600); err != nil {
		t.Fatal(err)
	}
	dead, err := q.Dead(t.Context(), "", 9)
	if err != nil || len(dead) != 1 || !strings.Contains(dead[0].Reason, "damaged") {
		t.Fatalf("%+v, %v", dead, err)
	}
	if err := q.Retry(t.Context(), dead[0].ID); !errors.Is(err, queue.ErrDamaged) {
		t.Errorf("retry: %v", err)
	}
	if s, err := q.Status(t.Context()); err != nil || s.Messages != 0 || s.Dead != 1 {
		t.Errorf("%+v, %v", s, err)
	}
	if err := q.Drop(t.Context(), dead[0].ID); err != nil {
		t.Error(err)
	}
}
