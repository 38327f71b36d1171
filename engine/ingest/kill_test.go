package ingest_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"headroom/engine/ingest"
	"headroom/engine/upsert"
	"headroom/fail"
	"headroom/testkit/need"
)

var kills = flag.Int("kills", 44, "how often ingest is killed in mode add")

// childEnv makes this program one run of ingest.
const childEnv = "HEADROOM_TEST_INGEST"

// child is what a run is told.
type child struct {
	DSN         string
	Into        string
	Inputs      []string
	Checkpoint  string
	Rejects     string
	Connections int
	Batch       int
}

func (c child) run() error {
	cfg, err := pgx.ParseConfig(c.DSN)
	if err != nil {
		return err
	}
	key, err := ingest.ParseFields("--key", "id")
	if err != nil {
		return err
	}
	columns, err := ingest.ParseFields("--columns", "n, note")
	if err != nil {
		return err
	}
	s, err := ingest.Run(context.Background(), ingest.Options{Config: cfg, Into: c.Into, Key: key, Columns: columns, Inputs: c.Inputs, Stdin: os.Stdin, Checkpoint: c.Checkpoint, Rejects: c.Rejects, MaxRejects: -1,
		Say:    func(s string) { fmt.Fprintln(os.Stderr, s) },
		Upsert: upsert.Options{Mode: upsert.Add, Adds: []string{"n"}, Connections: c.Connections, Batch: c.Batch, RetryFor: time.Minute}})
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(s)
	}
	return err
}

// start begins a run in a process of its own.
func (c child) start(t *testing.T) (*exec.Cmd, *strings.Builder) {
	raw, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	out := &strings.Builder{}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), childEnv+"="+string(raw))
	cmd.Stdout, cmd.Stderr = out, out
	if c.Inputs[0] == "-" {
		if cmd.Stdin, err = os.Open(c.Checkpoint + ".stdin"); err != nil {
			t.Fatal(err)
		}
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, out
}

const (
	victimKeys = 4000
	victimRows = 30_000 // of each file
)

// victim is a source whose runs are killed again and again.
type victim struct {
	t   *testing.T
	c   child
	rnd *rand.Rand

	killed, behind int // how often, and how often after something was in that the checkpoint did not know
	whole          int // times that all of the source was added
	known          int64
	bad            int // records of it that the server refuses
}

// victimOf writes two files for a source.
func victimOf(t *testing.T, dsn, table, name string, stdin bool, seed uint64) *victim {
	v := &victim{t: t, rnd: rand.New(rand.NewPCG(seed, 0))}
	dir := t.TempDir()
	v.c = child{DSN: dsn, Into: table, Checkpoint: filepath.Join(dir, name), Rejects: filepath.Join(dir, name+".rejects")}
	for f := range 2 {
		var b strings.Builder
		for i := range victimRows {
			id, note := (i*7919+f)%victimKeys, "good"
			if i%5003 == 1 {
				id, note = 1_000_000+i, "bad"
				v.bad++
			}
			fmt.Fprintf(&b, "{\"id\":%d,\"n\":1,\"note\":%q}\n", id, note)
		}
		path := filepath.Join(dir, fmt.Sprint(name, f))
		if stdin && f == 0 {
			path = v.c.Checkpoint + ".stdin"
		}
		if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		if stdin && f == 0 {
			path = "-"
		}
		v.c.Inputs = append(v.c.Inputs, path)
	}
	return v
}

// run starts a run and kills it, or not; done says that it came to its end.
func (v *victim) run(kill bool) (done bool) {
	v.c.Connections, v.c.Batch = v.rnd.IntN(5), []int{0, 50, 300, 2000}[v.rnd.IntN(4)]
	cmd, out := v.c.start(v.t)
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	if kill {
		select {
		case err := <-ended:
			ended <- err
		case <-time.After(time.Duration((0.1 + 0.9*v.rnd.Float64()) * float64(time.Second))): // somewhere in the middle
			_ = cmd.Process.Kill()
			v.killed++
		}
	}
	if err := <-ended; err != nil {
		var exit *exec.ExitError
		if !kill || !errors.As(err, &exit) || exit.Exited() {
			v.t.Fatalf("%v: %s", err, out)
		}
		return false
	}
	var s ingest.Summary
	text := out.String()
	if err := json.Unmarshal([]byte(text[strings.LastIndex(strings.TrimSpace(text), "\n")+1:]), &s); err != nil || !s.Complete {
		v.t.Fatalf("%v: %s", err, text)
	}
	if s.Known > 0 {
		v.behind++
		v.known += s.Known
	}
	v.whole++
	return true
}

// again forgets how far it is, so that the next run adds all of it once more.
func (v *victim) again() {
	if err := os.Remove(v.c.Checkpoint); err != nil {
		v.t.Fatal(err)
	}
}

// kill has n runs killed, and then one come to its end.
func (v *victim) kill(n int) {
	for v.killed < n && !v.t.Failed() {
		if v.run(true) {
			v.again()
		}
	}
	v.run(false)
}

// Runs in mode add of two sources into one table, each of which is killed at
// any moment and gone on with, over another number of connections each time:
// the sums are exact, and every refused record is set aside.
func TestAddIsExactAfterKills(t *testing.T) {
	_, conn := place(t)
	if _, err := conn.Exec(t.Context(), "create table killed (id bigint primary key, n bigint not null, note text check (note <> 'bad'))"); err != nil {
		t.Fatal(err)
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	victims := []*victim{victimOf(t, shared.s.DSN(), "killed", "a", false, seed), victimOf(t, shared.s.DSN(), "killed", "b", true, seed+1)}
	var all sync.WaitGroup
	for _, v := range victims {
		all.Go(func() { v.kill((*kills + 1) / len(victims)) })
	}
	all.Wait()
	if t.Failed() {
		return
	}
	want, behind := 0, 0
	for _, v := range victims {
		want += v.whole * (2*victimRows - v.bad)
		behind += v.behind
		raw, err := os.ReadFile(v.c.Rejects)
		if got := strings.Count(string(raw), "bad"); err != nil || got < v.whole*v.bad {
			t.Errorf("%d records set aside, at least %d expected, %v", got, v.whole*v.bad, err)
		}
		t.Logf("killed %d times, came to the end %d times, %d of these after rows were passed over (%d rows)", v.killed, v.whole, v.behind, v.known)
	}
	if got := ask(t, conn, "select sum(n)::text from killed"); got != fmt.Sprint(want) {
		t.Errorf("the sum is %s, not %d", got, want)
	}
	if behind == 0 {
		t.Error("no kill left rows in that the checkpoint did not know of: nothing was tested")
	}
	if got := ask(t, conn, "select count(*)::text from headroom.upsert_source"); got != "0" {
		t.Errorf("%s rows of sources are left", got)
	}
}

// A checkpoint of before sources had names still opens, says what that means,
// and the run is exact from then on.
func TestOldCheckpointOpens(t *testing.T) {
	_, conn := place(t)
	dir := t.TempDir()
	in := "{\"id\":1,\"n\":1}\n{\"id\":2,\"n\":1}\n{\"id\":1,\"n\":1}\n"
	const old = `{
  "format": "headroom-ingest-checkpoint",
  "schema": 1,
  "table": "old_checkpoint",
  "inputs": ["-"],
  "known": {},
  "acknowledged": {"input": 0, "offset": 15, "line": 2},
  "complete": false
}`
	path := filepath.Join(dir, "c")
	if err := os.WriteFile(path, []byte(old), 0o600); err != nil {
		t.Fatal(err)
	}
	var said []string
	o := ingest.Options{Into: "old_checkpoint", Create: true, Key: fields(t, "id"), Columns: fields(t, "n bigint"), Checkpoint: path,
		Upsert: upsert.Options{Mode: upsert.Add, Adds: []string{"n"}}, Say: func(s string) { said = append(said, s) }}
	s, err := run(t, in, o)
	if err != nil || s.Rows != 2 || !strings.Contains(strings.Join(said, "\n"), "older version") {
		t.Fatalf("%+v, %v, %q", s, err, said)
	}
	if s, err = run(t, in+"{\"id\":2,\"n\":1}\n", o); err != nil || s.Rows != 1 || s.Known != 0 {
		t.Errorf("%+v, %v", s, err)
	}
	if got := ask(t, conn, "select sum(n)::text from old_checkpoint"); got != "3" {
		t.Error(got)
	}
	o.Key = fields(t, "id=n")
	if _, err = run(t, in, o); err == nil || !strings.Contains(err.Error(), "another key") || fail.HintOf(err) == "" {
		t.Error(err)
	}
}

// The first of two files grows after the second was begun: its new rows must
// not be taken for old ones, nor old ones for new.
func TestFinishedInputGrows(t *testing.T) {
	cfg, conn := place(t)
	dir := t.TempDir()
	a, b, c := filepath.Join(dir, "a.ndjson"), filepath.Join(dir, "b"), filepath.Join(dir, "c")
	if err := os.WriteFile(a, []byte("{\"id\":1,\"n\":1}\n{\"id\":2,\"n\":1}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(b, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	o := ingest.Options{Config: cfg, Into: "grown", Create: true, Key: fields(t, "id"), Columns: fields(t, "n bigint"), Inputs: []string{a, b}, Checkpoint: c, Format: "ndjson",
		Upsert: upsert.Options{Mode: upsert.Add, Adds: []string{"n"}}}
	ended := make(chan error, 1)
	go func() {
		_, err := ingest.Run(ctx, o)
		ended <- err
	}()
	w, err := os.OpenFile(b, os.O_WRONLY, 0) // opens when the run does
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(w, "{\"id\":1,\"n\":1}\n"); err != nil {
		t.Fatal(err)
	}
	need.Eventually(t, 20*time.Second, "all three rows are in", func() bool { return ask(t, conn, "select coalesce(sum(n), 0)::text from grown") == "3" })
	stop()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	w.Close()
	// As after a kill: the checkpoint is behind, the rows are in.
	raw, err := os.ReadFile(c)
	if err != nil {
		t.Fatal(err)
	}
	var saved map[string]any
	if err := json.Unmarshal(raw, &saved); err != nil {
		t.Fatal(err)
	}
	saved["acknowledged"] = map[string]int{"input": 0, "offset": 0, "line": 0}
	if raw, err = json.Marshal(saved); err == nil {
		err = os.WriteFile(c, raw, 0o600)
	}
	if err == nil {
		err = os.WriteFile(a, []byte("{\"id\":1,\"n\":1}\n{\"id\":2,\"n\":1}\n{\"id\":3,\"n\":1}\n"), 0o600)
	}
	if err == nil {
		err = os.Remove(b)
	}
	if err == nil {
		err = os.WriteFile(b, []byte("{\"id\":1,\"n\":1}\n{\"id\":4,\"n\":1}\n"), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	var said string
	o.Say = func(s string) { said += s }
	s, err := ingest.Run(t.Context(), o)
	if err != nil || s.Known != 3 || !strings.Contains(said, "has grown") {
		t.Fatalf("%+v, %v, %q", s, err, said)
	}
	if got := ask(t, conn, "select string_agg(id || ':' || n, ' ' order by id) from grown"); got != "1:2 2:1 4:1" {
		t.Error(got)
	}
}
