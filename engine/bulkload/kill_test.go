package bulkload_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"headroom/pglocal"
	"headroom/testkit/need"
)

var killResults = flag.String("kill-results", "", "write what became of each killed load to this file, as JSON")

// killed is one load that was ended at a named point, and what came of it.
type killed struct {
	Mode  string `json:"mode"`
	Point string `json:"point"`
	Pass  int    `json:"pass"`
	Who   string `json:"killed"` // client or server
	Then  string `json:"then"`   // resume or restore
	End   string `json:"end"`    // loaded or as before
}

var atCall = regexp.MustCompile(`crash\.At\("([^"]+)"\)`)

// points lists every crash.At in this package's source: none can be forgotten.
func points(t *testing.T) []string {
	t.Helper()
	var out []string
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range atCall.FindAllStringSubmatch(string(b), -1) {
			if slices.Contains(out, m[1]) {
				t.Errorf("%s: point %s is used twice", name, m[1])
			}
			out = append(out, m[1])
		}
	}
	return out
}

// ways are the kinds of load, and how many passes of which points each is
// killed at.
var ways = map[string]map[string]int{
	"drop": {"bulkload.filed": 1, "bulkload.stored": 1, "bulkload.dropping": 1, "bulkload.dropped": 1, "bulkload.chunk-sent": 2, "bulkload.chunk-committed": 2,
		"bulkload.isolated": 2, "bulkload.loaded": 1, "bulkload.index-built": 4, "bulkload.built": 1, "bulkload.keying": 1, "bulkload.keyed": 1,
		"bulkload.validated": 1, "bulkload.ending": 1, "bulkload.ended": 1},
	"violate":   {"bulkload.undoing": 1, "bulkload.removed": 1, "bulkload.keyed": 1, "bulkload.ending": 1},
	"create":    {"bulkload.dropping": 1, "bulkload.dropped": 1, "bulkload.chunk-committed": 2, "bulkload.built": 1, "bulkload.ended": 1},
	"atomic":    {"bulkload.atomic-copied": 1, "bulkload.atomic-built": 1},
	"partition": {"bulkload.dropped": 1, "bulkload.chunk-committed": 2, "bulkload.validated": 1, "bulkload.ending": 1},
	"minimal":   {"bulkload.frozen-copied": 1, "bulkload.frozen": 1, "bulkload.keyed": 1},
}

// schema is a table with everything that a load may drop and must bring back.
const schema = `
create table site (id int primary key); insert into site select generate_series(0, 99);
create table people (id int not null, client int not null, site int not null, name text, n numeric,
	constraint "people key" primary key (id) with (fillfactor = 90));
alter table people add constraint people_u unique (client, id) deferrable initially deferred;
alter table people add constraint people_site foreign key (site) references site deferrable;
alter table people add constraint people_old foreign key (client) references site not valid;
alter table people add constraint people_n check (n is null or n <> 4711);
create index people_name on people using gin (to_tsvector('simple', name)) with (fastupdate = off);
create index people_lower on people (lower(name) desc nulls last, client) include (site) where client > 3;
create unique index people_ident on people (id, site);
alter index people_lower alter column 1 set statistics 777;
alter table people cluster on "people key";
alter table people replica identity using index people_ident;
comment on index people_lower is 'it''s "lower" \ backslash';
comment on constraint "people key" on people is 'the key';
comment on constraint people_site on people is 'the site';
create function nothing() returns trigger language plpgsql as 'begin return new; end';
create trigger audit before insert on people for each row execute function nothing();
create trigger off before insert on people for each row execute function nothing();
create trigger always after insert on people for each statement execute function nothing();
alter table people disable trigger off;
alter table people enable always trigger always;
create table part (id int not null, client int not null, site int, name text, n numeric, primary key (id)) partition by range (id);
create index on part (client);`

const killRows = 6000

// reset makes the database of a round anew.
func reset(b *bench, mode string) {
	b.exec("drop schema if exists headroom cascade; drop table if exists people, made, part, part_2, site cascade; drop function if exists nothing; " + schema)
	if mode != "minimal" {
		b.exec("insert into people select -g, 3, 1, 'old' from generate_series(1, 500) g")
	}
	for _, name := range []string{"state", "rejects", "mark"} {
		if err := os.RemoveAll(filepath.Join(b.dir, name)); err != nil {
			b.t.Fatal(err)
		}
	}
}

// content is the rows of all tables that a load of any mode fills.
func content(b *bench) string {
	out := ""
	for _, table := range []string{"people", "made", "part"} {
		if b.text("select to_regclass('"+table+"') is not null") == "t" {
			out += table + " " + b.text("select count(*), md5(string_agg(t::text, ',' order by t::text)) from "+table+" t") + "\n"
		}
	}
	return out
}

// rejected lists the lines in the rejects, sorted, each as often as it is there.
func rejected(b *bench) string {
	raw, err := os.ReadFile(filepath.Join(b.dir, "rejects"))
	if os.IsNotExist(err) {
		return ""
	}
	if err != nil {
		b.t.Fatal(err)
	}
	var out []string
	for _, l := range strings.Split(string(raw), "\n")[1:] {
		n, _, _ := strings.Cut(l, "\t")
		out = append(out, n)
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

type killer struct {
	*bench
	prog string
	sv   *pglocal.Server
	dsn  string
}

func (k *killer) run(point string, sig syscall.Signal, args ...string) *exec.Cmd {
	c := exec.Command(k.prog, args...)
	c.Env = append(os.Environ(), "KILL_DIR="+k.dir, "KILL_DSN="+k.dsn, "HEADROOM_CRASH_AT="+point, fmt.Sprintf("HEADROOM_CRASH_SIGNAL=%d", sig),
		"HEADROOM_CRASH_MARK="+filepath.Join(k.dir, "mark"))
	var buf bytes.Buffer
	c.Stdout, c.Stderr, c.WaitDelay = &buf, &buf, time.Second
	return c
}

// finish runs the program to its end.
func (k *killer) finish(args ...string) (out string, code int) {
	c := k.run("", 0, args...)
	if err := c.Run(); c.ProcessState == nil {
		k.t.Fatal(err)
	}
	return c.Stdout.(*bytes.Buffer).String(), c.ProcessState.ExitCode()
}

// die runs a load and ends the program, or the server, at the point. It
// answers false if the point was not reached.
func (k *killer) die(row killed) bool {
	sig := syscall.SIGKILL
	if row.Who == "server" {
		sig = syscall.SIGSTOP
	}
	c := k.run(fmt.Sprintf("%s:%d", row.Point, row.Pass), sig, "load", row.Mode)
	if err := c.Start(); err != nil {
		k.t.Fatal(err)
	}
	if row.Who == "server" {
		need.Eventually(k.t, 30*time.Second, fmt.Sprintf("%+v: the program stands still", row), func() bool {
			raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.Process.Pid))
			return err != nil || bytes.Contains(raw, []byte(") T ")) || bytes.Contains(raw, []byte(") Z "))
		})
		if err := syscall.Kill(k.sv.PID(), syscall.SIGKILL); err != nil {
			k.t.Fatal(err)
		}
		var err error // sessions at work take a moment to notice that they are orphans
		need.Eventually(k.t, 30*time.Second, fmt.Sprintf("%+v: the server starts again", row), func() bool {
			err = k.sv.Restart(k.t.Context())
			return err == nil
		})
		_ = c.Process.Signal(syscall.SIGCONT)
		k.connect()
	}
	_ = c.Wait()
	k.said = []string{c.Stdout.(*bytes.Buffer).String()}
	_, err := os.Stat(filepath.Join(k.dir, "mark"))
	return err == nil
}

// Wherever a load is killed, or its server, resume ends with every row in
// once and restore with the table as it was; what was dropped is back (P18).
func TestKillPoints(t *testing.T) {
	need.Have(t, "pg")
	prog := filepath.Join(t.TempDir(), "kill")
	if out, err := exec.Command("go", "build", "-tags", "crash", "-o", prog, "./testdata/kill").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	var table []killed
	reached := map[string]bool{}
	for mode, passes := range ways {
		t.Run(mode, func(t *testing.T) {
			table = append(table, killMode(t, prog, mode, passes, reached)...)
		})
	}
	for _, p := range points(t) {
		if !reached[p] {
			t.Errorf("point %s was never reached", p)
		}
	}
	if *killResults != "" {
		writeTable(t, table)
	}
}

func killMode(t *testing.T, prog, mode string, passes map[string]int, reached map[string]bool) (table []killed) {
	settings := map[string]string{}
	if mode == "minimal" {
		settings = map[string]string{"wal_level": "minimal", "max_wal_senders": "0"}
	}
	sv, err := pglocal.Start(t.Context(), pglocal.Options{Major: *major, Name: "kill", NoFsync: true, Settings: settings})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sv.Stop(); err != nil {
			t.Error(err)
		}
	})
	k := &killer{bench: benchOn(t, sv), prog: prog, sv: sv}
	k.dsn = sv.DSN() + " dbname=" + k.cfg.Database
	k.files()
	for _, row := range k.rounds(mode, passes) {
		if !k.round(&row) {
			t.Errorf("%+v: the point was not reached: %s", row, k.said)
			continue
		}
		reached[row.Point] = true
		table = append(table, row)
	}
	return table
}

// rounds lists what a mode goes through: each point with the client killed and
// with the server killed, and after each both ways out.
func (k *killer) rounds(mode string, passes map[string]int) (out []killed) {
	for point, n := range passes {
		for pass := 1; pass <= n; pass++ {
			for _, who := range []string{"client", "server"} {
				for _, then := range []string{"resume", "restore"} {
					if testing.Short() && who == "server" {
						continue
					}
					out = append(out, killed{Mode: mode, Point: point, Pass: pass, Who: who, Then: then})
				}
			}
		}
	}
	return out
}

// files writes the inputs: some bad records, of which the server finds two.
func (k *killer) files() {
	var all, good strings.Builder
	for i := range killRows {
		l := fmt.Sprintf("%d\t%d\t%d\tAnna %d %s\t%d\n", i+1, i%50, i%100, i%77, strings.Repeat("x", 60), i+100_000)
		good.WriteString(l)
		switch i {
		case 1000, 4500:
			l = "bad\t1\t1\ta\t1\n"
		case 2000, 4000:
			l = fmt.Sprintf("%d\t1\t1\ta\t4711\n", i+1)
		}
		all.WriteString(l)
	}
	k.file("people.tsv", all.String())
	k.file("good.tsv", good.String())
	k.file("twice.tsv", all.String()+"77\t1\t1\ta\t1\n")
}

// round kills one load and checks what becomes of it.
func (k *killer) round(row *killed) bool {
	t := k.t
	what := fmt.Sprintf("%+v", *row)
	reset(k.bench, row.Mode)
	before, defined := content(k.bench), k.text(definitions)
	if !k.die(*row) {
		return false
	}
	verb := row.Then
	if row.Mode == "violate" { // it is being taken back: that is all that can be done
		verb = "restore"
	}
	out, code := k.finish(verb, row.Mode)
	if code != 0 {
		t.Fatalf("%s: %s ended with status %d:\n%s", what, verb, code, out)
	}
	over := row.Point == "bulkload.ended" || row.Mode == "atomic"
	row.End = "as before"
	switch {
	case over && row.Mode != "atomic", verb == "resume" && !over:
		row.End = "loaded"
	}
	if now := content(k.bench); (now == before) != (row.End == "as before") {
		t.Fatalf("%s: the tables hold\n%sand held\n%s%s\nbefore: %s", what, now, before, out, k.said)
	}
	if row.End == "loaded" {
		k.checkLoaded(*row, what+"\n"+out)
	}
	if now := k.text(definitions); now != defined && (row.Mode != "create" && row.Mode != "partition" || row.End == "as before") {
		t.Fatalf("%s: definitions differ:\n%s\n---\n%s\n%s", what, now, defined, out)
	}
	if row.Mode != "atomic" {
		k.want("select count(*) from headroom.load_chunk", "0")
	}
	return true
}

func (k *killer) checkLoaded(row killed, what string) {
	table, old := "people", 500
	switch row.Mode {
	case "create":
		table, old = "made", 0
	case "partition":
		table, old = "part", 0
	case "minimal":
		old = 0
	}
	want, bad := killRows-4, "1001 2001 4001 4501"
	if row.Mode == "minimal" || row.Mode == "create" {
		want, bad = killRows, ""
	}
	if row.Mode == "partition" { // it has no such CHECK
		want, bad = killRows-2, "1001 4501"
	}
	if got := k.text("select count(*) from " + table); got != fmt.Sprint(want+old) {
		k.t.Fatalf("%s: %s rows, not %d", what, got, want+old)
	}
	if got := strings.TrimSpace(rejected(k.bench)); got != bad {
		k.t.Fatalf("%s: rejected lines %q, not %q", what, got, bad)
	}
}

func writeTable(t *testing.T, table []killed) {
	b, err := json.MarshalIndent(map[string]any{"what": "loads killed at every named point, the program or its server: all loaded once or put back", "runs": len(table), "rows": table}, "", " ")
	if err == nil {
		err = os.WriteFile(*killResults, append(b, '\n'), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}
