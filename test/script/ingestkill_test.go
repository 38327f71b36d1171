package script

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
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

	"headroom/pglocal"
	"headroom/testkit/need"
)

var (
	killRuns    = flag.Int("ingest.runs", 6, "runs of ingest that are disturbed by kill -9")
	killResults = flag.String("ingest.results", "", "write what became of them to this file, as JSON")
)

// disturbed is one run: who was killed, and what was found afterwards.
type disturbed struct {
	Kill         string  `json:"kill"` // client, server (postmaster) or backend
	Mode         string  `json:"mode"`
	After        float64 `json:"after_seconds"`
	Acknowledged int     `json:"acknowledged"` // keys, when the client was dead or the run had ended
	Lost         int     `json:"lost"`         // of these, not in the table
	Missing      int     `json:"missing"`      // keys of the input not in the table after resuming
	Twice        int     `json:"twice"`        // keys added more than once, in mode add
	TwiceAcked   int     `json:"twice_acknowledged"`
	Phantom      int     `json:"phantom"` // keys in the table that are not in the input
	Recovered    float64 `json:"recovered_seconds"`
	Resumed      bool    `json:"resumed"`
}

const (
	killRows   = 200_000
	killHeader = "id,n\n"
	killLine   = 10 // bytes: seven digits, comma, 1, line break
)

// ward is one server and its input.
type ward struct {
	t     *testing.T
	s     *pglocal.Server
	dir   string
	input string
}

func (w *ward) sql(q string) (n int) {
	w.t.Helper()
	var err error
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		var conn *pgx.Conn
		if conn, err = pgx.Connect(context.Background(), w.s.DSN()); err != nil {
			continue // starting up
		}
		err = conn.QueryRow(context.Background(), q, pgx.QueryExecModeSimpleProtocol).Scan(&n)
		_ = conn.Close(context.Background())
		if err == nil || errors.Is(err, pgx.ErrNoRows) {
			return n
		}
	}
	w.t.Fatalf("%s: %v", q, err)
	return 0
}

func (w *ward) do(q string) {
	w.t.Helper()
	conn, err := pgx.Connect(context.Background(), w.s.DSN())
	if err != nil {
		w.t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(context.Background(), q); err != nil {
		w.t.Fatalf("%s: %v", q, err)
	}
}

// client is ingest as its user starts it.
func (w *ward) client(table, mode string) (*exec.Cmd, *tail) {
	self, err := os.Executable()
	if err != nil {
		w.t.Fatal(err)
	}
	args := []string{"headroom", "ingest", w.input, "--into", table, "--key", "id", "--checkpoint", filepath.Join(w.dir, table+".ckpt"), "--batch", "400", "--connections", "3", "--retry", "2m", "--db", w.s.DSN(), "--mode", mode}
	if mode == "add" {
		args = append(args, "--add", "n")
	}
	out := &tail{}
	return &exec.Cmd{Path: self, Args: args, Stdout: out, Stderr: out, Env: append(os.Environ(), "HEADROOM_STATE="+w.dir, "TERM=dumb")}, out
}

// acked is how many keys the checkpoint says are in.
func (w *ward) acked(table string) int {
	raw, err := os.ReadFile(filepath.Join(w.dir, table+".ckpt"))
	if errors.Is(err, os.ErrNotExist) {
		return 0
	}
	var c struct {
		Acknowledged struct {
			Offset int `json:"offset"`
		} `json:"acknowledged"`
	}
	if err == nil {
		err = json.Unmarshal(raw, &c)
	}
	if err != nil {
		w.t.Fatalf("the checkpoint cannot be read: %v: %q", err, raw)
	}
	return max(0, (c.Acknowledged.Offset-len(killHeader))/killLine)
}

// disturb runs ingest once and kills somebody in the middle.
func (w *ward) disturb(n int, rnd *rand.Rand) disturbed {
	t := w.t
	d := disturbed{Kill: []string{"client", "client", "server", "backend"}[rnd.IntN(4)], Mode: []string{"add", "replace"}[rnd.IntN(2)], After: 0.05 + 1.5*rnd.Float64()}
	table := fmt.Sprint("t", n)
	w.do("create table " + table + " (id bigint primary key, n bigint)")
	cmd, out := w.client(table, d.Mode)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Duration(d.After * float64(time.Second)))
	begun := time.Now()
	switch d.Kill {
	case "client":
		_ = cmd.Process.Kill()
	case "server":
		_ = syscall.Kill(w.s.PID(), syscall.SIGKILL)
		if err := w.s.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
	case "backend":
		if pid := w.sql("select pid from pg_stat_activity where application_name = 'headroom' and state <> 'idle' order by random() limit 1"); pid > 0 {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	err := cmd.Wait()
	d.Recovered = time.Since(begun).Seconds()
	if err != nil && d.Kill != "client" && strings.Contains(out.String(), "acknowledged") { // else it was killed before we were connected
		t.Errorf("%s killed after %.3f s: the client gave up: %v\n%s", d.Kill, d.After, err, out)
	}
	before := w.acked(table)
	d.Acknowledged = before
	d.Lost = before - w.sql(fmt.Sprintf("select count(*) from %s where id between 1 and %d", table, before))
	for i := 0; err != nil && i < 3; i++ {
		d.Resumed = true
		again, out := w.client(table, d.Mode)
		if err = again.Run(); err != nil {
			t.Errorf("resumed after a kill of the %s: %v\n%s", d.Kill, err, out)
		}
	}
	d.Missing = killRows - w.sql(fmt.Sprintf("select count(*) from %s where id between 1 and %d", table, killRows))
	d.Phantom = w.sql(fmt.Sprintf("select count(*) from %s where id not between 1 and %d", table, killRows))
	d.Twice = w.sql("select count(*) from " + table + " where n <> 1")
	d.TwiceAcked = w.sql(fmt.Sprintf("select count(*) from %s where n <> 1 and id <= %d", table, before))
	w.do("drop table " + table)
	return d
}

// Whoever is killed, at whatever moment: what was acknowledged is in the
// table, a run that goes on brings all the rest, and no row is added twice.
func TestIngestSurvivesKills(t *testing.T) {
	need.Have(t, "pg")
	const servers = 2
	var mu sync.Mutex
	var all []disturbed
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	var wards sync.WaitGroup
	for k := range servers {
		w := newWard(t)
		rnd := rand.New(rand.NewPCG(seed, uint64(k)))
		wards.Go(func() {
			for n := k; n < *killRuns; n += servers {
				d := w.disturb(n, rnd)
				mu.Lock()
				all = append(all, d)
				mu.Unlock()
			}
		})
	}
	wards.Wait()
	sum := map[string]int{"runs": len(all)}
	for _, d := range all {
		sum["killed "+d.Kill]++
		sum["acknowledged"] += d.Acknowledged
		sum["lost"] += d.Lost
		sum["missing"] += d.Missing
		sum["twice"] += d.Twice
		sum["twice acknowledged"] += d.TwiceAcked
		sum["phantom"] += d.Phantom
		if d.Acknowledged > 0 && d.Acknowledged < killRows {
			sum["killed in the middle"]++
		}
		if d.Lost+d.Missing+d.Twice+d.Phantom > 0 {
			t.Errorf("%+v", d)
		}
	}
	t.Log(sum)
	if *killResults != "" {
		raw, err := json.MarshalIndent(map[string]any{"sums": sum, "seed": seed, "rows": killRows, "runs": all}, "", " ")
		if err == nil {
			err = os.WriteFile(*killResults, append(raw, '\n'), 0o644)
		}
		if err != nil {
			t.Error(err)
		}
	}
}

func newWard(t *testing.T) *ward {
	t.Helper()
	w := &ward{t: t}
	var err error
	if w.dir, err = os.MkdirTemp("", "hr-kill-"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(w.dir) })
	if err := os.Chmod(w.dir, 0o711); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString(killHeader)
	for i := range killRows {
		fmt.Fprintf(&b, "%07d,1\n", i+1)
	}
	w.input = filepath.Join(w.dir, "in.csv")
	if err := os.WriteFile(w.input, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if w.s, err = pglocal.Start(t.Context(), pglocal.Options{Name: "ingestkill"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.s.Stop() })
	return w
}
