package bulkload

import (
	"slices"
	"testing"
)

// The model says about what was measured with the people table on an idle
// machine: bench/results/bulkload-2026-11-21.json, the runs without a second
// load beside them.
func TestModelSaysWhatWasMeasured(t *testing.T) {
	const rows, width = 600_000, 103
	page := int64(8192)
	indexes := []Object{{Kind: "index", Method: "btree", Bytes: 5823 * page}, {Kind: "index", Method: "btree", Bytes: 552 * page}, {Kind: "index", Method: "gin", Bytes: 992 * page}}
	for _, c := range []struct {
		name         string
		fresh, there float64
		conns        int
		drop         bool
		after        float64 // VACUUM ANALYZE of so many rows
		want         float64
	}{
		{"append 5 %", rows / 20, rows, 2, false, 0, 0.58},
		{"append 5 % by COPY", rows / 20, rows, 1, false, 0, 0.66},
		{"COPY into an empty table", rows, 0, 1, false, rows, 7.2},
		{"load of an empty table", rows, 0, 4, true, rows, 2.7},
	} {
		l := load{m: Measured(), fresh: c.fresh, there: c.there, width: width, conns: c.conns, sessions: 3, memory: 8 << 30}
		standing := slices.Clone(indexes)
		for i := range standing {
			if c.there == 0 {
				standing[i].Bytes = 2 * page
			}
		}
		drop := []bool{c.drop, c.drop, c.drop}
		got := l.m.Start + l.total(standing, drop) + c.after*l.m.Vacuum
		if got < c.want/2 || got > c.want*2 {
			t.Errorf("%s: estimated %.2f s, measured %.2f s", c.name, got, c.want)
		}
		t.Logf("%s: estimated %.2f s, measured %.2f s", c.name, got, c.want)
	}
}

// All connections wait for one list of a GIN index: more of them are no help.
func TestListOfGINIsNotShared(t *testing.T) {
	gin := Object{Kind: "index", Method: "gin", IndexDef: "CREATE INDEX i ON t USING gin (a)"}
	slow := gin
	slow.IndexDef += " WITH (fastupdate=off)"
	one, four := load{m: Measured(), fresh: 1e5, conns: 1}, load{m: Measured(), fresh: 1e5, conns: 4}
	if one.keep(gin) != four.keep(gin) || one.keep(slow) <= four.keep(slow) {
		t.Error(one.keep(gin), four.keep(gin), one.keep(slow), four.keep(slow))
	}
}
