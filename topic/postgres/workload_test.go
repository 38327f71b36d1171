package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"headroom/fail"
	"headroom/pglocal"
	"headroom/testkit/need"
	"headroom/trial"
)

// stand is a private server for one test.
func stand(t *testing.T) *trial.Stand {
	t.Helper()
	need.Have(t, "pg")
	sv, err := pglocal.Start(t.Context(), pglocal.Options{Name: t.Name(), NoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	h := sv.Host()
	t.Cleanup(func() {
		h.Close()
		if err := sv.Stop(); err != nil {
			t.Error(err)
		}
	})
	return &trial.Stand{Name: "test", Host: h, DSN: sv.DSN()}
}

// filled are a workload's parameters with defaults for all but those given.
func filled(w *trial.Workload, given ...string) map[string]string {
	p := map[string]string{}
	for _, x := range w.Params {
		p[x.Name] = x.Default
	}
	for i := 0; i+1 < len(given); i += 2 {
		p[given[i]] = given[i+1]
	}
	return p
}

// rounds sets a workload up on the stand and runs it a few times.
func rounds(t *testing.T, s *trial.Stand, w *trial.Workload, n int, o trial.RoundOptions, given ...string) (trial.Work, []trial.Round) {
	t.Helper()
	work, err := w.New(filled(w, given...))
	if err != nil {
		t.Fatal(err)
	}
	if err := work.Setup(t.Context(), s, func(string) {}); err != nil {
		t.Fatal(err)
	}
	session, err := work.Open(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	var out []trial.Round
	for i := range n {
		o.Seed = uint64(i+1) * 7919
		r, err := session.Run(t.Context(), 200*time.Millisecond, o)
		if err != nil {
			t.Fatal(err)
		}
		if r.Done == 0 || r.Failed > 0 || r.Seconds <= 0 {
			t.Fatalf("round %d: %+v", i, r)
		}
		for _, m := range w.Measures {
			if r.Figures[m.Name] <= 0 {
				t.Errorf("round %d has no %s: %v", i, m.Name, r.Figures)
			}
		}
		out = append(out, r)
	}
	if err := session.Close(); err != nil {
		t.Fatal(err)
	}
	return work, out
}

// ask reads one text from the stand's server.
func ask(t *testing.T, s *trial.Stand, sql string) (v string) {
	t.Helper()
	err := s.Host.PG(t.Context(), func(ctx context.Context, tx pgx.Tx) error { return tx.QueryRow(ctx, sql).Scan(&v) })
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestUpsertReplacesRowsAndKeepsTheirNumber(t *testing.T) {
	s := stand(t)
	work, done := rounds(t, s, Upsert, 3, trial.RoundOptions{}, "keys", "20000", "batch", "100")
	if got := ask(t, s, "select count(*)::text from "+upsertTable); got != "20000" {
		t.Errorf("%s rows, want 20000", got)
	}
	var rows int64
	for _, r := range done {
		rows += r.Done
	}
	changed := ask(t, s, "select count(*)::text from "+upsertTable+" where doc->>'seq' <> '0'")
	if n := ask(t, s, fmt.Sprintf("select (%s <= %d and %s > %d / 20)::text", changed, rows, changed, rows)); n != "true" {
		t.Errorf("%d rows written, %s are not as they were filled", rows, changed)
	}
	if bad := ask(t, s, "select count(*)::text from "+upsertTable+" where (doc->>'id')::bigint <> k"); bad != "0" {
		t.Errorf("%s documents under another's key", bad)
	}
	if got := ask(t, s, "select (n_dead_tup >= 0)::text from pg_stat_user_tables where relname = 'upsert'"); got != "true" {
		t.Error(got)
	}
	if err := work.Teardown(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if got := ask(t, s, "select count(*)::text from pg_namespace where nspname = '"+trialSchema+"'"); got != "0" {
		t.Error("the schema is left")
	}
}

func TestUpsertVariants(t *testing.T) {
	s := stand(t)
	for _, given := range [][]string{
		{"keydist", "zipf"}, {"table", "unlogged", "durability", "off"}, {"clients", "5", "bytes", "2000"}, {"autovacuum", "on", "fillfactor", "100"},
	} {
		rounds(t, s, Upsert, 1, trial.RoundOptions{}, append(given, "keys", "5000", "batch", "50")...)
	}
	_, r := rounds(t, s, Upsert, 1, trial.RoundOptions{Rate: 1000}, "keys", "5000", "batch", "50")
	if all := r[0].Done + r[0].Skipped; all < 50 || all > 400 {
		t.Errorf("%d rows in 0.2 s at 1000/s: %+v", all, r[0])
	}
	for _, given := range [][]string{{"keys", "1000", "batch", "1000"}, {"clients", "900", "batch", "2000"}} {
		if _, err := Upsert.New(filled(Upsert, given...)); err == nil {
			t.Errorf("%v is taken", given)
		}
	}
}

func TestDocumentsAreJSONOfTheAskedSize(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	seen := map[string]bool{}
	for i := range 1000 {
		size := 64 + i
		b := document(nil, int64(i)*1_000_003, int64(i)*77, size, rng)
		var v struct {
			ID  int64 `json:"id"`
			Seq int64 `json:"seq"`
		}
		if err := json.Unmarshal(b, &v); err != nil || v.ID != int64(i)*1_000_003 || len(b) != size || seen[string(b)] {
			t.Fatalf("%s: %v, %d bytes, want %d", b, err, len(b), size)
		}
		seen[string(b)] = true
	}
}

// Two writers never have a key in common, and a batch has each key once, in
// order: they cannot deadlock.
func TestWritersHaveKeysOfTheirOwn(t *testing.T) {
	for _, zipf := range []bool{false, true} {
		owner := map[int64]int{}
		u := upsert{keys: 10_000, batch: 500, clients: 3, zipf: zipf}
		for id := range u.clients {
			w := &writer{upsert: u, id: id}
			w.seed(42)
			for range 20 {
				w.draw()
				for i, k := range w.keys {
					if i > 0 && k <= w.keys[i-1] || k < 0 || k >= int64(u.keys) {
						t.Fatalf("batch %v", w.keys)
					}
					if o, taken := owner[k]; taken && o != id {
						t.Fatalf("key %d belongs to %d and %d", k, o, id)
					}
					owner[k] = id
				}
			}
		}
	}
}

func TestTPCBKeepsItsSums(t *testing.T) {
	s := stand(t)
	work, done := rounds(t, s, TPCB, 2, trial.RoundOptions{}, "scale", "1", "clients", "2")
	sums := ask(t, s, `select format('%s %s %s %s', (select sum(abalance) from headroom_trial.pgbench_accounts), (select sum(bbalance) from headroom_trial.pgbench_branches),
		(select sum(tbalance) from headroom_trial.pgbench_tellers), (select sum(delta) from headroom_trial.pgbench_history))`)
	f := strings.Fields(sums)
	if len(f) != 4 || f[0] != f[1] || f[1] != f[2] || f[2] != f[3] {
		t.Errorf("the sums differ: %s", sums)
	}
	if n := ask(t, s, "select count(*)::text from headroom_trial.pgbench_history"); n != fmt.Sprint(done[0].Done+done[1].Done) {
		t.Errorf("%s rows of history for %d transactions", n, done[0].Done+done[1].Done)
	}
	if err := work.Teardown(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	rounds(t, s, Select, 1, trial.RoundOptions{}, "scale", "1", "clients", "2", "connect", "each", "protocol", "simple")
}

func TestScriptWorkload(t *testing.T) {
	s := stand(t)
	dir := t.TempDir()
	file := func(name, text string) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return p
	}
	setup := file("setup.sql", "create table hits (kind text primary key, n bigint); insert into hits values ('a', 0), ('b', 0);")
	down := file("down.sql", "drop table hits;")
	a := file("a.sql", "update hits set n = n + :by where kind = 'a';\n")
	b := file("b.sql", "update hits set n = n + :by where kind = 'b';\n")
	given := []string{"files", a + "@3," + b, "vars", "by=2", "setup", setup, "clients", "1"}
	work, done := rounds(t, s, Script, 1, trial.RoundOptions{}, append(given, "teardown", down)...)
	if got := ask(t, s, "select (sum(n))::text from public.hits"); got != fmt.Sprint(2*done[0].Done) {
		t.Errorf("sum %s after %d transactions", got, done[0].Done)
	}
	if got := ask(t, s, "select (max(n) filter (where kind = 'a') > max(n) filter (where kind = 'b'))::text from public.hits"); got != "true" {
		t.Error("the weights are not kept")
	}
	if err := work.Teardown(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	live := *s
	live.Live = true
	w, err := Script.New(filled(Script, given...))
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Setup(t.Context(), &live, func(string) {}); fail.Code(err) != fail.Usage {
		t.Errorf("setup on a live server without teardown: %v", err)
	}
	for _, bad := range []string{"", "nowhere.sql", a + "@0", a + "@x", file("bad.sql", `\set x random(`)} {
		if _, err := Script.New(filled(Script, "files", bad)); err == nil {
			t.Errorf("files=%q is taken", bad)
		}
	}
}

func TestSearchPathGoesIntoAnyDSN(t *testing.T) {
	for dsn, want := range map[string]string{
		"host=/tmp user=x":                 `host=/tmp user=x search_path='headroom_trial, "$user", public'`,
		"":                                 ` search_path='headroom_trial, "$user", public'`,
		"postgres://u@h/d":                 "postgres://u@h/d?search_path=headroom_trial%2C+%22%24user%22%2C+public",
		"postgresql://h/d?sslmode=disable": "postgresql://h/d?sslmode=disable&search_path=headroom_trial%2C+%22%24user%22%2C+public",
	} {
		if got := inSchema(dsn); got != want {
			t.Errorf("%q: %q", dsn, got)
		}
	}
}

// A schema of our name that somebody else made is left alone, and so is one
// that another trial works in.
func TestALiveServersSchemaIsOursOrLeftAlone(t *testing.T) {
	s := stand(t)
	s.Live = true
	say := []string{}
	begin := func(w *trial.Workload, given ...string) (trial.Work, error) {
		work, err := w.New(filled(w, given...))
		if err != nil {
			t.Fatal(err)
		}
		return work, work.Setup(t.Context(), s, func(x string) { say = append(say, x) })
	}
	small := [][]string{{"keys", "1000", "batch", "10"}, {"scale", "1"}}
	if err := script(t.Context(), s.DSN, "create schema "+trialSchema, "create table "+trialSchema+".precious ()"); err != nil {
		t.Fatal(err)
	}
	for i, w := range []*trial.Workload{Upsert, TPCB} {
		work, err := begin(w, small[i]...)
		if err == nil || !strings.Contains(err.Error(), "no trial made") || !strings.Contains(fail.HintOf(err), "RENAME") {
			t.Errorf("%s: %v", w.Name, err)
		}
		if err := work.Teardown(t.Context(), s); err != nil {
			t.Error(err)
		}
	}
	if got := ask(t, s, "select count(*)::text from "+trialSchema+".precious"); got != "0" {
		t.Error(got)
	}
	if err := script(t.Context(), s.DSN, "drop schema "+trialSchema+" cascade"); err != nil {
		t.Fatal(err)
	}
	first, err := begin(Select, "scale", "1")
	if err != nil {
		t.Fatal(err)
	}
	second, err := begin(Upsert, small[0]...)
	if fail.Code(err) != fail.Locked {
		t.Errorf("two at once: %v", err)
	}
	if err := second.Teardown(t.Context(), s); err != nil {
		t.Error(err)
	}
	if got := ask(t, s, "select count(*)::text from "+trialSchema+".pgbench_branches"); got != "1" {
		t.Error(got)
	}
	if err := first.(scripted).home.free(); err != nil { // as kill -9 does
		t.Fatal(err)
	}
	var third trial.Work
	need.Eventually(t, 10*time.Second, "the lock is free", func() bool {
		third, err = begin(TPCB, "scale", "1")
		return err == nil
	})
	if !strings.Contains(strings.Join(say, "\n"), "which an interrupted trial left") {
		t.Errorf("%q", say)
	}
	if err := third.Teardown(t.Context(), s); err != nil {
		t.Error(err)
	}
	if got := ask(t, s, "select count(*)::text from pg_namespace where nspname = '"+trialSchema+"'"); got != "0" {
		t.Error("the schema is left")
	}
}

// A setup file that fails because its table is there already has not made that
// table: the teardown file would take away somebody else's.
func TestAFailedSetupFileIsNotTornDown(t *testing.T) {
	s := stand(t)
	s.Live = true
	if err := script(t.Context(), s.DSN, "create table orders as select 1 as n"); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, text := range map[string]string{"up.sql": "create table orders (n int);", "down.sql": "drop table orders;", "x.sql": "select n from orders;"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	work, err := Script.New(filled(Script, "files", filepath.Join(dir, "x.sql"), "setup", filepath.Join(dir, "up.sql"), "teardown", filepath.Join(dir, "down.sql")))
	if err != nil {
		t.Fatal(err)
	}
	if err := work.Setup(t.Context(), s, func(string) {}); err == nil || !strings.Contains(fail.HintOf(err), "teardown file was not run") {
		t.Error(err)
	}
	if err := work.Teardown(t.Context(), s); err != nil {
		t.Error(err)
	}
	if got := ask(t, s, "select n::text from public.orders"); got != "1" {
		t.Error(got)
	}
}
