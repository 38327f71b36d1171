package change

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"headroom/fail"
	"headroom/host"
	"headroom/pglocal"
	"headroom/testkit/need"
)

func server(t testing.TB, settings map[string]string) (*pglocal.Server, *host.Local) {
	t.Helper()
	need.Have(t, "pg")
	s, err := pglocal.Start(ctx, pglocal.Options{Settings: settings})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	h := s.Host()
	t.Cleanup(h.Close)
	return s, h
}

// autoConf is what postgresql.auto.conf holds, without its comments.
func autoConf(t testing.TB, s *pglocal.Server) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(s.DataDir, "postgresql.auto.conf"))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, l := range strings.Split(string(b), "\n") {
		if l != "" && l[0] != '#' {
			out = append(out, l)
		}
	}
	return strings.Join(out, "\n")
}

func show(t testing.TB, r host.Reader, name string) (v string) {
	t.Helper()
	if !answers(ctx, r) {
		t.Fatal("the server does not answer")
	}
	err := r.PG(ctx, func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, "select current_setting($1)", name).Scan(&v)
	})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func set(name, value string) Change {
	return Change{Spec: Spec{ID: "postgres.setting"}, Steps: Steps{Setting{Values: map[string]string{name: value}}}}
}

func TestSettings(t *testing.T) {
	s, h := server(t, map[string]string{"max_wal_size": "2GB", "log_min_duration_statement": "5s"})
	t.Run("form", func(t *testing.T) { formIsTheServers(t, h) })
	t.Run("roundtrip", func(t *testing.T) { settingRoundTrip(t, s, h) })
	t.Run("refused", func(t *testing.T) { settingRefused(t, s, h) })
	t.Run("several", func(t *testing.T) { severalSettings(t, s, h) })
	t.Run("sql", func(t *testing.T) { sqlStep(t, h) })
	t.Run("restart", func(t *testing.T) { settingWithRestart(t, s, h) })
	t.Run("pending", func(t *testing.T) { settingPending(t, s, h) })
	t.Run("rescue", func(t *testing.T) { serverThatDoesNotStart(t, s, h) })
	t.Run("rights", func(t *testing.T) { settingRights(t, s, h) })
	t.Run("stored blindly", func(t *testing.T) { settingStoredBlindly(t, s, h) })
	t.Run("broken file", func(t *testing.T) { settingBesideBrokenFile(t, s, h) })
	t.Run("database", func(t *testing.T) { overriddenInDatabase(t, s, h) })
}

// Every number of the server must be written as the server writes it.
func formIsTheServers(t *testing.T, h *host.Local) {
	n := 0
	err := h.PG(ctx, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `select name, vartype, coalesce(unit, ''), setting, current_setting(name) from pg_settings
			where vartype in ('integer', 'real', 'bool') and name !~ '(_mode|permissions)$'`)
		if err != nil {
			return err
		}
		var g guc
		var setting, shown string
		_, err = pgx.ForEachRow(rows, []any{&g.name, &g.vartype, &g.unit, &setting, &shown}, func() error {
			if got := g.shown(setting); got != shown {
				t.Errorf("%s: %s %s is shown as %s, the server writes %s", g.name, setting, g.unit, got, shown)
			}
			if got, _, err := g.normal(shown); err != nil || got != shown {
				t.Errorf("%s: %s becomes %s, %v", g.name, shown, got, err)
			}
			n++
			return nil
		})
		return err
	})
	if err != nil || n < 100 {
		t.Errorf("%d settings, %v", n, err)
	}
}

func settingRoundTrip(t *testing.T, s *pglocal.Server, h *host.Local) {
	for name, value := range map[string]string{
		"max_wal_size": "10240", "log_line_prefix": `%m '"\ 100%`, "search_path": `"$user", public, "We ird"`, "wal_compression": "on",
		"session_preload_libraries": "auto_explain,pg_prewarm", "checkpoint_completion_target": ".75", "autovacuum": "off",
		"log_statement": "DDL", "statement_timeout": "90s", "datestyle": "iso, ymd", "log_connections": "on",
	} {
		auto, was := autoConf(t, s), show(t, h, name)
		j := newJournal(t)
		p := prepare(t, h, set(name, value))
		if got := autoConf(t, s); got != auto {
			t.Errorf("%s: the plan changed the server: %s", name, got)
		}
		res, err := Apply(ctx, h, p, Options{Journal: j})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if again := prepare(t, h, set(name, value)); !again.Nothing() {
			t.Errorf("%s: something is left to do: %+v", name, again.Steps()[0])
		}
		if _, err := Revert(ctx, h, res.ID, Options{Journal: j}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := autoConf(t, s); got != auto || show(t, h, name) != was {
			t.Errorf("%s: reverted to %q, %s; before %q, %s", name, got, show(t, h, name), auto, was)
		}
	}
	// What is so through another file is nothing to do, however it is written.
	if p := prepare(t, h, set("max_wal_size", "2048MB")); !p.Nothing() {
		t.Errorf("already so: %+v", p.Steps())
	}
	// A value that stood there comes back to the letter.
	if err := h.PGExec(ctx, "alter system set max_wal_size = '3072'"); err != nil {
		t.Fatal(err)
	}
	if err := reload(ctx, h); err != nil {
		t.Fatal(err)
	}
	auto, j := autoConf(t, s), newJournal(t)
	reset := Change{Steps: Steps{Setting{Reset: []string{"max_wal_size"}}}}
	res, err := Apply(ctx, h, prepare(t, h, reset), Options{Journal: j})
	if err != nil || show(t, h, "max_wal_size") != "2GB" {
		t.Fatalf("reset: %v, %s", err, show(t, h, "max_wal_size"))
	}
	if _, err := Revert(ctx, h, res.ID, Options{Journal: j}); err != nil || autoConf(t, s) != auto {
		t.Errorf("back: %v, %s", err, autoConf(t, s))
	}
}

func settingRefused(t *testing.T, s *pglocal.Server, h *host.Local) {
	auto := autoConf(t, s)
	for _, c := range []struct{ name, value, want string }{
		{"max_wal_sise", "1GB", "unrecognized"}, {"max_wal_size", "1kB", "outside the valid range"}, {"server_version", "9", "cannot be changed"},
		{"port", "1", "command line"}, {"x; drop table t", "1", "not a setting's name"}, {"log_line_prefix", "a\nb", "line break"},
		{"shared_preload_libraries", "", "does not start"}, {"wal_level", "all", "available values"}, {"search_path", `"x`, "not closed"},
		{"max_wal_size", "1kB", "(2MB .. 2147483647MB)"}, {"shared_buffers", "1kB", "(128kB .. 8589934584kB)"}, {"random_page_cost", "-1", "(0 .. 1"},
		{"timezone", "Nowhere/Nix", `invalid value for parameter "TimeZone": "Nowhere/Nix"`}, {"default_tablespace", "nosuch", "nosuch"},
		{"data_directory", "/x", "cannot be changed"}, {"config_file", "/x", "cannot be changed"}, {"transaction_isolation", "serializable", "cannot be changed"},
	} {
		_, err := Prepare(ctx, h, set(c.name, c.value))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s = %q: %v, want %q", c.name, c.value, err, c.want)
		}
	}
	// What only the server can tell is told by it, and taken back.
	p := prepare(t, h, Change{Steps: Steps{Setting{Values: map[string]string{"archive_command": "x", "log_destination": "nowhere"}}}})
	_, err := Apply(ctx, h, p, Options{Journal: newJournal(t)})
	if fail.Code(err) != fail.Reverted || !strings.Contains(err.Error(), "log_destination") {
		t.Errorf("refused by the server: %v", err)
	}
	if got := autoConf(t, s); got != auto {
		t.Errorf("left behind: %s", got)
	}
}

func severalSettings(t *testing.T, s *pglocal.Server, h *host.Local) {
	auto, j := autoConf(t, s), newJournal(t)
	p := prepare(t, h, Change{Steps: Steps{Setting{Values: map[string]string{"work_mem": "8MB", "random_page_cost": "1.1"}}}})
	rows := p.Changes[0].Steps[0].Rows()
	if len(rows) != 4 || rows[0] != (Row{"random_page_cost (in force)", "4", "1.1"}) || rows[1] != (Row{"random_page_cost (postgresql.auto.conf)", NotSet, "1.1"}) {
		t.Errorf("rows = %+v", rows)
	}
	res, err := Apply(ctx, h, p, Options{Journal: j})
	if err != nil {
		t.Fatal(err)
	}
	if err := h.PGExec(ctx, "alter system set work_mem = '9MB'"); err != nil {
		t.Fatal(err)
	}
	_, err = Revert(ctx, h, res.ID, Options{Journal: j})
	var moved *Moved
	if !errors.As(err, &moved) || len(moved.Rows) != 1 || moved.Rows[0].Values != [3]string{NotSet, "8MB", "9MB"} {
		t.Errorf("foreign edit: %v", err)
	}
	if _, err := Revert(ctx, h, res.ID, Options{Journal: j, Accept: []string{AcceptForeign}}); err != nil || autoConf(t, s) != auto {
		t.Errorf("forced: %v, %s", err, autoConf(t, s))
	}
}

func sqlStep(t *testing.T, h *host.Local) {
	j := newJournal(t)
	p := prepare(t, h, Change{Steps: Steps{SQL{Name: "table t", Do: "create table if not exists public.t (i int)", Back: "drop table if exists public.t",
		Check: "select count(*)::text from pg_class where relname = 't'", Gives: "1"}}})
	res, err := Apply(ctx, h, p, Options{Journal: j})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Revert(ctx, h, res.ID, Options{Journal: j}); err != nil {
		t.Error(err)
	}
	if !prepare(t, h, Change{Steps: Steps{SQL{Name: "n", Check: "select 'x'", Gives: "x"}}}).Nothing() {
		t.Error("already so, and something is left to do")
	}
}

func settingWithRestart(t *testing.T, s *pglocal.Server, h *host.Local) {
	auto, j, was := autoConf(t, s), newJournal(t), show(t, h, "max_connections")
	p := prepare(t, h, Change{Steps: Steps{Setting{Values: map[string]string{"max_connections": "123", "wal_buffers": "-1"}, Restart: true}}})
	_, err := Apply(ctx, h, p, Options{Journal: j})
	if fail.Code(err) != fail.Usage || !strings.Contains(fail.HintOf(err), "--accept restart") {
		t.Fatalf("without consent: %v", err)
	}
	pid := s.PID()
	res, err := Apply(ctx, h, p, Options{Journal: j, Accept: []string{AcceptRestart}})
	if err != nil || show(t, h, "max_connections") != "123" || s.PID() == pid {
		t.Fatalf("apply: %v", err)
	}
	if _, err := Revert(ctx, h, res.ID, Options{Journal: j, Accept: []string{AcceptRestart}}); err != nil {
		t.Fatal(err)
	}
	if autoConf(t, s) != auto || show(t, h, "max_connections") != was {
		t.Errorf("reverted to %q", autoConf(t, s))
	}
}

// A setting that takes effect at start and is only stored stays pending; a
// restart in between is nobody's edit.
func settingPending(t *testing.T, s *pglocal.Server, h *host.Local) {
	auto, j := autoConf(t, s), newJournal(t)
	p := prepare(t, h, set("max_worker_processes", "9"))
	if note := p.Steps()[0].After.Note; !strings.Contains(note, "next restart") {
		t.Errorf("note = %q", note)
	}
	res, err := Apply(ctx, h, p, Options{Journal: j})
	if err != nil || show(t, h, "max_worker_processes") != "8" {
		t.Fatalf("apply: %v", err)
	}
	if !prepare(t, h, set("max_worker_processes", "9")).Nothing() {
		t.Error("pending, and planned again")
	}
	if err := s.Restart(ctx); err != nil {
		t.Fatal(err)
	}
	if show(t, h, "max_worker_processes") != "9" {
		t.Error("not in force after the restart")
	}
	back, err := Revert(ctx, h, res.ID, Options{Journal: j})
	if err != nil || autoConf(t, s) != auto || len(back.Notes) != 1 || !strings.Contains(back.Notes[0], "restart pending") {
		t.Errorf("revert: %+v, %v, %q", back, err, autoConf(t, s))
	}
	if err := s.Restart(ctx); err != nil {
		t.Fatal(err)
	}
}

// A value that the server takes and cannot start with.
func serverThatDoesNotStart(t *testing.T, s *pglocal.Server, h *host.Local) {
	if os.Getuid() == 0 && !answers(ctx, h) {
		t.Fatal("the server is down already")
	}
	auto, j := autoConf(t, s), newJournal(t)
	p := prepare(t, h, Change{Steps: Steps{Setting{Values: map[string]string{"shared_preload_libraries": "no_such_library"}, Restart: true}}})
	res, err := Apply(ctx, h, p, Options{Journal: j, Accept: []string{AcceptRestart}})
	if fail.Code(err) != fail.Reverted || res.Phase != Reverted {
		t.Fatalf("apply = %+v, %v", res, err)
	}
	if got := autoConf(t, s); got != auto || show(t, h, "shared_preload_libraries") != "" {
		t.Errorf("after: %q", got)
	}
}

func settingRights(t *testing.T, s *pglocal.Server, h *host.Local) {
	for _, q := range []string{"create role looker login", "grant pg_monitor to looker", "create role nobody_much login"} {
		if err := h.PGExec(ctx, q); err != nil {
			t.Fatal(err)
		}
	}
	looker := host.Open(host.Options{WithPG: true, DSN: strings.Replace(s.DSN(), "user="+s.Conn.User, "user=looker", 1)})
	defer looker.Close()
	p := prepare(t, looker, set("work_mem", "8MB"))
	_, err := Apply(ctx, looker, p, Options{Journal: newJournal(t)})
	if fail.Code(err) != fail.Reverted || !strings.Contains(fail.HintOf(err), "GRANT") {
		t.Errorf("apply without the right: %v; hint %q", err, fail.HintOf(err))
	}
	// A plan made by one who may only look is applied by one who may change.
	if _, err := Apply(ctx, h, p, Options{Journal: newJournal(t)}); err != nil {
		t.Errorf("apply of the looker's plan: %v", err)
	}
	if err := h.PGExec(ctx, "alter system reset work_mem"); err != nil {
		t.Fatal(err)
	}
	if err := reload(ctx, h); err != nil {
		t.Fatal(err)
	}
	low := host.Open(host.Options{WithPG: true, DSN: strings.Replace(s.DSN(), "user="+s.Conn.User, "user=nobody_much", 1)})
	defer low.Close()
	if _, err := Prepare(ctx, low, set("max_wal_size", "8GB")); !errors.Is(err, fail.ErrDenied) || !strings.Contains(fail.HintOf(err), "GRANT") {
		t.Errorf("plan with too few rights: %v; hint %q", err, fail.HintOf(err))
	}
}

// A role that may store a setting and may do nothing else: what it stored is
// taken back although it cannot be seen.
func settingStoredBlindly(t *testing.T, s *pglocal.Server, h *host.Local) {
	if s.Major < 15 {
		return // there only superusers store settings
	}
	for _, q := range []string{"create role half login", "grant pg_monitor to half", "grant alter system on parameter work_mem, max_connections to half"} {
		if err := h.PGExec(ctx, q); err != nil {
			t.Fatal(err)
		}
	}
	half := host.Open(host.Options{WithPG: true, DSN: s.DSN() + " user=half"})
	defer half.Close()
	auto := autoConf(t, s)
	for _, name := range []string{"work_mem", "max_connections"} {
		value := map[string]string{"work_mem": "8MB", "max_connections": "90"}[name]
		p := prepare(t, half, Change{Steps: Steps{Setting{Values: map[string]string{name: value}, Restart: name == "max_connections"}}})
		_, err := Apply(ctx, half, p, Options{Journal: newJournal(t), Accept: []string{AcceptRestart}})
		if fail.Code(err) != fail.Reverted || !strings.Contains(fail.HintOf(err), `GRANT EXECUTE ON FUNCTION pg_reload_conf() TO "half"`) {
			t.Errorf("apply of %s: %v; hint %q", name, err, fail.HintOf(err))
		}
		if got := autoConf(t, s); got != auto {
			t.Errorf("%s: left in postgresql.auto.conf: %q", name, got)
		}
	}
	if err := h.PGExec(ctx, "grant execute on function pg_reload_conf() to half"); err != nil {
		t.Fatal(err)
	}
	p := prepare(t, half, Change{Steps: Steps{Setting{Values: map[string]string{"max_connections": "90"}, Restart: true}}})
	_, err := Apply(ctx, half, p, Options{Journal: newJournal(t), Accept: []string{AcceptRestart}})
	if fail.Code(err) != fail.Reverted || !strings.Contains(fail.HintOf(err), "GRANT SELECT ON pg_file_settings") {
		t.Errorf("apply: %v; hint %q", err, fail.HintOf(err))
	}
	if got := autoConf(t, s); got != auto {
		t.Errorf("left in postgresql.auto.conf: %q", got)
	}
}

// A line that the server cannot parse keeps it from loading any: nothing is
// planned then, and what was stored is taken back although it does not show.
func settingBesideBrokenFile(t *testing.T, s *pglocal.Server, h *host.Local) {
	auto := autoConf(t, s)
	p := prepare(t, h, set("random_page_cost", "3"))
	conf := filepath.Join(s.DataDir, "postgresql.conf")
	was, err := os.ReadFile(conf)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(conf, append(was, "\nno line = = at all\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Prepare(ctx, h, set("random_page_cost", "3")); err == nil || !strings.Contains(err.Error(), "postgresql.conf:") || fail.HintOf(err) == "" {
		t.Errorf("plan = %v", err)
	}
	_, err = Apply(ctx, h, p, Options{Journal: newJournal(t)})
	if fail.Code(err) != fail.Reverted {
		t.Errorf("apply = %v", err)
	}
	if err := os.WriteFile(conf, was, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := autoConf(t, s); got != auto {
		t.Errorf("left in postgresql.auto.conf: %q", got)
	}
	if err := reload(ctx, h); err != nil {
		t.Fatal(err)
	}
}

func overriddenInDatabase(t *testing.T, _ *pglocal.Server, h *host.Local) {
	if err := h.PGExec(ctx, "alter database postgres set work_mem = '5MB'"); err != nil {
		t.Fatal(err)
	}
	h.Close() // it counts for new connections
	_, err := Prepare(ctx, h, set("work_mem", "8MB"))
	if err == nil || !strings.Contains(err.Error(), "ALTER DATABASE") {
		t.Errorf("plan = %v", err)
	}
}

// Of several hosts the plan names the one that answered.
func TestPlanNamesTheHostThatAnswers(t *testing.T) {
	s, _ := server(t, nil)
	for _, dsn := range []string{
		fmt.Sprintf("host=/nowhere,%s port=%d", s.Conn.SocketDir, s.Conn.Port),
		fmt.Sprintf("host=%s,/nowhere port=%d", s.Conn.SocketDir, s.Conn.Port),
		fmt.Sprintf("host=localhost,%s port=1,%d", s.Conn.SocketDir, s.Conn.Port),
	} {
		h := host.Open(host.Options{WithPG: true, DSN: fmt.Sprintf("%s user=%s dbname=%s", dsn, s.Conn.User, s.Conn.Database)})
		defer h.Close()
		if got, want := prepare(t, h, set("work_mem", "8MB")).Server.Address, fmt.Sprintf("%s:%d", s.Conn.SocketDir, s.Conn.Port); got != want {
			t.Errorf("%s: the plan is for %s, want %s", dsn, got, want)
		}
	}
}

func TestAnotherServerIsRefused(t *testing.T) {
	s, a := server(t, nil)
	_, b := server(t, nil)
	p := prepare(t, a, set("work_mem", "8MB"))
	if _, err := Apply(ctx, b, p, Options{Journal: newJournal(t)}); fail.Code(err) != fail.Drift {
		t.Errorf("apply on another server: %v", err)
	}
	// Primary and standby on two machines may have equal folders.
	sb, err := s.Standby(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sb.Stop() })
	standby := sb.Host()
	t.Cleanup(standby.Close)
	p.Server.DataDir = sb.DataDir
	if p.Hash, err = p.hash(); err != nil {
		t.Fatal(err)
	}
	if _, err := Apply(ctx, standby, p, Options{Journal: newJournal(t)}); fail.Code(err) != fail.Drift || !strings.Contains(err.Error(), "a standby") {
		t.Errorf("apply of the primary's plan on its standby: %v", err)
	}
	if strings.Contains(p.Server.Address, "password") || p.Server.SystemID == "" || p.Server.DataDir == "" {
		t.Errorf("server = %+v", p.Server)
	}
}
