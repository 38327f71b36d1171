package script

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"headroom/testkit/need"
)

// Ctrl-C while a generator is silent: all that came is in, and the offset is
// told and kept.
func TestInterruptedIngestTellsHowFar(t *testing.T) {
	need.Have(t, "pg")
	w := newWard(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var out tail
	ckpt := filepath.Join(w.dir, "stop.ckpt")
	cmd := &exec.Cmd{Path: self, Args: []string{"headroom", "ingest", "--into", "stopped", "--key", "id", "--create", "--checkpoint", ckpt, "--db", w.s.DSN()},
		Stdout: &out, Stderr: &out, Env: append(os.Environ(), "HEADROOM_STATE="+w.dir, "TERM=dumb")}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	sent := 0
	for i := range 1000 {
		n, err := fmt.Fprintf(in, "{\"id\": %d}\n", i)
		if err != nil {
			t.Fatal(err, out.String())
		}
		sent += n
	}
	need.Eventually(t, 30*time.Second, "rows are acknowledged", func() bool {
		b, err := os.ReadFile(ckpt)
		return err == nil && !strings.Contains(string(b), `"offset": 0`)
	})
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	err = cmd.Wait()
	var x *exec.ExitError
	if !errors.As(err, &x) || x.ExitCode() != 130 {
		t.Errorf("ended with %v, want exit status 130:\n%s", err, out.String())
	}
	if want := fmt.Sprintf("up to byte %d (line 1001)", sent); !strings.Contains(out.String(), want) || !strings.Contains(out.String(), "Stopped") {
		t.Errorf("no %q in:\n%s", want, out.String())
	}
	if n := w.sql("select count(*) from stopped"); n != 1000 {
		t.Errorf("%d rows are in", n)
	}
	b, err := os.ReadFile(ckpt)
	if want := fmt.Sprintf(`"offset": %d`, sent); err != nil || !strings.Contains(string(b), want) {
		t.Errorf("no %s in %s, %v", want, b, err)
	}
}
