package pg

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"headroom/fact"
	"headroom/fail"
	"headroom/unit"
)

func TestStatementByVersion(t *testing.T) {
	f := func(name string, major int64, want string) {
		t.Helper()
		got, err := statement(name, major)
		if err != nil || !strings.Contains(got, want) {
			t.Errorf("statement(%q, %d) = %.60q, %v", name, major, got, err)
		}
	}
	f("checkpoints", 12, "from pg_catalog.pg_stat_bgwriter")
	f("checkpoints", 16, "from pg_catalog.pg_stat_bgwriter")
	f("checkpoints", 17, "pg_stat_checkpointer c")
	f("checkpoints", 25, "pg_stat_checkpointer c")
	f("wal", 14, "pg_stat_wal")
	f("wal", 13, "pg_ls_waldir")
	if _, err := statement("wal", 12); !errors.Is(err, fail.ErrAbsent) || err.Error() != "not there in PostgreSQL 12: it came with 13" {
		t.Errorf("wal on 12: %v", err)
	}
}

func TestThresholds(t *testing.T) {
	number := func(v float64) Setting { return Setting{Type: "real", Number: fact.Known(v)} }
	c := Config{All: map[string]Setting{
		"autovacuum_vacuum_threshold": number(50), "autovacuum_vacuum_scale_factor": number(0.2),
		"autovacuum_analyze_threshold": number(50), "autovacuum_analyze_scale_factor": number(0.1),
		"autovacuum_freeze_max_age": number(2e8), "autovacuum_vacuum_max_threshold": number(1e8),
	}}
	f := func(options []string, rows, vacuum, analyze float64, freeze int64, auto bool) {
		t.Helper()
		x := Table{Options: optionMap(options)}
		x.thresholds(c, rows)
		if x.VacuumAt != vacuum || x.AnalyzeAt != analyze || x.FreezeAt != freeze || x.Auto != auto {
			t.Errorf("%q, %v rows: %+v", options, rows, x)
		}
	}
	f(nil, 1000, 250, 150, 2e8, true)
	f([]string{"autovacuum_vacuum_scale_factor=0.01", "fillfactor=70"}, 1000, 60, 150, 2e8, true)
	f([]string{"autovacuum_enabled=False", "autovacuum_freeze_max_age=100000000"}, 0, 50, 50, 1e8, false)
	f([]string{"autovacuum_freeze_max_age=900000000"}, 0, 50, 50, 2e8, true)
	f([]string{"autovacuum_vacuum_threshold=7", "autovacuum_vacuum_scale_factor=rubbish"}, 10, 9, 51, 2e8, true)
	f(nil, 1e10, 1e8, 50+1e9, 2e8, true)
}

func TestBaseUnits(t *testing.T) {
	f := func(value, word, vartype string, want float64, base unit.Unit) {
		t.Helper()
		s := finish("x", Setting{Value: value, Unit: word, Type: vartype})
		if !s.Number.OK() || s.Number.Value != want || s.Base != base {
			t.Errorf("%s %s = %+v", value, word, s)
		}
	}
	f("16384", "8kB", "integer", 128*unit.MB, unit.Byte)
	f("16384", "64kB", "integer", unit.GB, unit.Byte)
	f("1024", "MB", "integer", unit.GB, unit.Byte)
	f("300", "s", "integer", 300, unit.Second)
	f("200", "ms", "integer", 0.2, unit.Second)
	f("1", "min", "integer", 60, unit.Second)
	f("-1", "kB", "integer", -1, unit.Byte)
	f("0.9", "", "real", 0.9, unit.None)
	f("100", "", "integer", 100, unit.None)
}

func TestStartedAt(t *testing.T) {
	if !startedAt("4711\n/data\n1700000000\n5432\n", 1700000003) || startedAt("4711\n/data\n1700000000\n", 1700000900) {
		t.Error("the start time decides")
	}
	rapid.Check(t, func(t *rapid.T) { startedAt(rapid.String().Draw(t, "lock file"), 0) })
}

func TestQuoteShowsEverything(t *testing.T) {
	f := func(name, want string) {
		t.Helper()
		if got := Quote(name); got != want {
			t.Errorf("Quote(%q) = %s, want %s", name, got, want)
		}
	}
	f("orders", "orders")
	f("Orders", `"Orders"`)
	f("user", `"user"`)
	f("a b\n", `U&"a b\+00000A"`)
	f("é", `"é"`)
	f("\\\x1b\"", `U&"\\\+00001B"""`)
	rapid.Check(t, func(t *rapid.T) {
		if q := Quote(rapid.String().Draw(t, "name")); strings.ContainsAny(q, "\n\r\x1b\x00") || q == "" {
			t.Errorf("not fit to print: %q", q)
		}
	})
}
