package host

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"headroom/fail"
)

func TestLocalUnderRoot(t *testing.T) {
	root := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(root, "sys/block/vda/queue"), 0o755))
	must(t, os.WriteFile(filepath.Join(root, "sys/block/vda/queue/rotational"), []byte("1\n"), 0o644))
	l := Open(Options{Root: root})
	b, err := l.ReadFile("/sys/block/vda/queue/rotational")
	if err != nil || string(b) != "1\n" {
		t.Fatalf("read = %q, %v", b, err)
	}
	got, err := l.Glob("/sys/block/*")
	if err != nil || len(got) != 1 || got[0] != "/sys/block/vda" {
		t.Errorf("glob = %q, %v: paths must be as on the machine itself", got, err)
	}
	if _, err := l.ReadFile("/../../etc/passwd"); !errors.Is(err, fail.ErrAbsent) {
		t.Errorf("a path left the root: %v", err)
	}
	must(t, l.WriteValue("/sys/block/vda/queue/rotational", "0"))
	if err := l.WriteValue("/sys/block/vda/queue/nothing", "0"); !errors.Is(err, fail.ErrAbsent) {
		t.Errorf("a pseudo file was made: %v", err)
	}
	must(t, l.WriteFile("/sys/f", []byte("x"), 0o600))
	st, err := l.Stat("/sys/f")
	if err != nil || st.Mode.Perm() != 0o600 || st.Size != 1 {
		t.Errorf("stat = %+v, %v", st, err)
	}
	left, _ := l.Glob("/sys/.f*")
	if len(left) != 0 {
		t.Errorf("temporary files left: %q", left)
	}
	must(t, l.Remove("/sys/f"))
	must(t, l.Remove("/sys/f"))
}

func TestWriteDurableTakesRelativeNames(t *testing.T) {
	t.Chdir(t.TempDir())
	must(t, WriteDurable("f", []byte("x"), 0o600))
	b, err := os.ReadFile("f")
	if err != nil || string(b) != "x" {
		t.Errorf("f = %q, %v", b, err)
	}
}

func TestLookRunsOnlyTheList(t *testing.T) {
	l := Open(Options{})
	for _, argv := range [][]string{{"rm", "-rf", "/nowhere"}, {"systemctl", "restart", "x"}, {"systemctl"}, {}} {
		if _, err := l.Look(context.Background(), argv...); err == nil {
			t.Errorf("Look(%q) must be refused", argv)
		}
	}
}

func TestRunTellsWhyAndStops(t *testing.T) {
	_, err := Cmd{Argv: []string{"sh", "-c", "echo no such thing >&2; exit 3"}}.Run(context.Background(), 100)
	if err == nil || !strings.Contains(err.Error(), "no such thing") {
		t.Errorf("error lost the program's words: %v", err)
	}
	ctx, stop := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer stop()
	start := time.Now()
	_, err = Cmd{Argv: []string{"sh", "-c", "sleep 30 & sleep 30"}}.Run(ctx, 100)
	if err == nil || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("time limit: %v", err)
	}
	if time.Since(start) > 10*time.Second {
		t.Error("the process group outlived its time limit")
	}
	out, err := Cmd{Argv: []string{"sh", "-c", "echo $LC_ALL; head -c 1000 /dev/zero"}}.Run(context.Background(), 10)
	if err != nil || len(out) != 10 || string(out[:2]) != "C\n" {
		t.Errorf("output = %q, %v", out, err)
	}
}

func TestPGWithoutServer(t *testing.T) {
	l := Open(Options{})
	if err := l.PG(context.Background(), nil); !errors.Is(err, fail.ErrAbsent) || fail.HintOf(err) == "" {
		t.Errorf("no server named: %v", err)
	}
	l = Open(Options{WithPG: true, DSN: "host=/nonexistent port=1 user=u password=canary-secret"})
	err := l.PG(context.Background(), nil)
	if err == nil || strings.Contains(err.Error(), "canary-secret") || !strings.Contains(err.Error(), "/nonexistent") {
		t.Errorf("refused connection: %v", err)
	}
}

func TestTimedReads(t *testing.T) {
	p := filepath.Join(t.TempDir(), "f")
	must(t, os.WriteFile(p, make([]byte, 1<<20), 0o600))
	f, err := Open(Options{}).OpenTimed(p)
	must(t, err)
	defer f.Close()
	if d, err := f.ReadTimed(8192, 8192); err != nil || d <= 0 {
		t.Errorf("read took %v, %v", d, err)
	}
	if _, err := f.ReadTimed(100, 8192); err == nil {
		t.Error("an unaligned read must be refused")
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
