package queue_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"headroom/queue"
	"headroom/queue/queuetest"
)

var write = flag.Bool("queue.write", false, "write the folder of this version to testdata, once, before its release")

// Folders of every released version open. testdata/v1 holds messages 0 to 11,
// of which 1 was acknowledged and 2 set aside.
func TestOldFolders(t *testing.T) {
	const v1 = "testdata/v1"
	if *write {
		dir := fixture(t)
		q := openLog(t, queue.Options{Dir: dir})
		ms, err := q.Fetch(t.Context(), 2)
		if err != nil {
			t.Fatal(err)
		}
		if err := ms[1].Kill(t.Context(), "refused: ü"); err != nil {
			t.Fatal(err)
		}
		if err := q.Close(); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(filepath.Join(dir, "lock")); err != nil {
			t.Fatal(err)
		}
		if err := os.CopyFS(v1, os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
	}
	dir := clone(t, v1)
	got, s := left(t, dir)
	if len(got) != 10 || got[0] != 0 || got[1] != 3 || s.Lost != 0 || s.Dead != 1 || len(s.Notes) != 0 {
		t.Errorf("messages %v, status %+v", got, s)
	}
	q := openLog(t, queue.Options{Dir: dir})
	defer q.Close()
	dead, err := q.Dead(t.Context(), "", 9)
	if err != nil || len(dead) != 1 || dead[0].Reason != "refused: ü" || string(dead[0].Data) != string(queuetest.Payload(2, 60)) {
		t.Errorf("dead letters %+v, %v", dead, err)
	}
}
