package page

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"headroom/store"
)

// tablesData is the list of tables, or that of statements, of one server.
type tablesData struct {
	*view
	Charts []Chart
}

func (p *pages) tables(v *view) (string, bool, any) {
	if v.Server == "" {
		return "tables", false, tablesData{view: v}
	}
	s := hostScope(v.Host).server(v.Server)
	by := []string{"database", "schema", "table"}
	return "tables", true, tablesData{v, []Chart{
		{Title: "Size of the largest", Help: "with TOAST", Unit: "bytes", Lines: []Line{s.gauge("{schema}.{table}", "postgres_table_bytes", by...).top(8)}},
		{Title: "Dead rows", Help: "of the tables that have most", Unit: "count", Lines: []Line{s.gauge("{schema}.{table}", "postgres_table_dead_rows", by...).top(8)}},
		{Title: "Scans of whole tables", Help: "rows read by them", Unit: "count/s", Lines: []Line{s.rate("{schema}.{table}", "postgres_table_sequential_rows_total", by...).top(8)}},
	}}
}

// table is one row of the list.
type table struct {
	Database, Name                       string
	Bytes, Indexes, Live, Dead, Changed  float64
	Sequential, Written                  float64 // a second
	VacuumAge                            float64
	DeadShare                            float64
	HasCounts, HasVacuum, HasIndexes, On bool
}

// list of tables or statements, or why there is none.
type list[T any] struct {
	Why  string
	Hint string
	List []T
}

const listed = 50

// tableKey tells tables apart.
func tableKey(n number) string {
	return n.get("database") + "\x00" + n.get("schema") + "\x00" + n.get("table")
}

// Tables lists the 50 largest.
func (d tablesData) Tables() list[table] {
	all := map[string]*table{}
	fill := func(metric string, rate bool, set func(t *table, v float64)) error {
		m := eq(metric, "host", d.Host, "server", d.Server)
		read := d.latest
		if rate {
			read = func(m []store.Match) ([]number, error) { return d.rates(m, "database", "schema", "table") }
		}
		ns, err := read(m)
		for _, n := range ns {
			t := all[tableKey(n)]
			if t == nil {
				t = &table{Database: n.get("database"), Name: n.get("schema") + "." + n.get("table")}
				all[tableKey(n)] = t
			}
			set(t, n.value)
		}
		return err
	}
	for _, f := range []struct {
		metric string
		rate   bool
		set    func(*table, float64)
	}{
		{"postgres_table_bytes", false, func(t *table, v float64) { t.Bytes, t.On = v, true }},
		{"postgres_table_indexes_bytes", false, func(t *table, v float64) { t.Indexes, t.HasIndexes = v, true }},
		{"postgres_table_live_rows", false, func(t *table, v float64) { t.Live, t.HasCounts = v, true }},
		{"postgres_table_dead_rows", false, func(t *table, v float64) { t.Dead = v }},
		{"postgres_table_changed_rows", false, func(t *table, v float64) { t.Changed = v }},
		{"postgres_table_vacuum_age_seconds", false, func(t *table, v float64) { t.VacuumAge, t.HasVacuum = v, true }},
		{"postgres_table_sequential_rows_total", true, func(t *table, v float64) { t.Sequential = v }},
		{"postgres_table_inserted_rows_total", true, func(t *table, v float64) { t.Written += v }},
		{"postgres_table_updated_rows_total", true, func(t *table, v float64) { t.Written += v }},
		{"postgres_table_deleted_rows_total", true, func(t *table, v float64) { t.Written += v }},
	} {
		if err := fill(f.metric, f.rate, f.set); err != nil {
			return list[table]{Why: err.Error()}
		}
	}
	var out []table
	for _, t := range all {
		if t.On {
			t.DeadShare = t.Dead / math.Max(1, t.Live+t.Dead)
			out = append(out, *t)
		}
	}
	slices.SortFunc(out, func(a, b table) int {
		return cmp.Or(cmp.Compare(b.Bytes+b.Indexes, a.Bytes+a.Indexes), cmp.Compare(a.Name, b.Name))
	})
	if len(out) == 0 {
		return d.nothing("postgres_table_bytes", "no table was seen in the last 20 minutes")
	}
	return list[table]{List: out[:min(listed, len(out))]}
}

// nothing says why a list is empty.
func (d tablesData) nothing(metric, otherwise string) list[table] {
	why, hint := d.why(metric)
	return list[table]{Why: cmp.Or(why, otherwise), Hint: hint}
}

// why is the gap that a metric of the server has.
func (v *view) why(metric string) (because, hint string) {
	for _, g := range v.GapsHere() {
		if g.Server == v.Server && slices.Contains(strings.Split(g.Metrics, ", "), metric) {
			return g.Because, g.Hint
		}
	}
	return "", ""
}

func (p *pages) queries(v *view) (string, bool, any) {
	if v.Server == "" {
		return "queries", false, tablesData{view: v}
	}
	s := hostScope(v.Host).server(v.Server)
	return "queries", true, tablesData{v, []Chart{
		{Title: "Time of the top statements", Help: "seconds a second: 1 keeps one session busy", Unit: "count", Lines: []Line{s.rate("{queryid}", "postgres_statement_seconds_total", "queryid").top(8)}},
		{Title: "Calls", Help: "of the statements called most", Unit: "count/s", Lines: []Line{s.rate("{queryid}", "postgres_statement_calls_total", "queryid").top(8)}},
		{Title: "Rows", Help: "returned or changed", Unit: "count/s", Lines: []Line{s.rate("{queryid}", "postgres_statement_rows_total", "queryid").top(8)}},
	}}
}

// statement is one row of the list.
type statement struct {
	ID, Database, Query      string
	Busy, Share, Calls, Rows float64 // seconds a second, share of all, a second
	Mean                     float64 // seconds of a call
	Read, WAL, Temp          float64 // blocks, bytes, bytes a second
}

// Statements lists the 50 that took most time within the range.
func (d tablesData) Statements() list[statement] {
	all := map[string]*statement{}
	total := 0.0
	for _, f := range []struct {
		metric string
		set    func(*statement, float64)
	}{
		{"postgres_statement_seconds_total", func(s *statement, v float64) { s.Busy = v; total += v }},
		{"postgres_statement_calls_total", func(s *statement, v float64) { s.Calls = v }},
		{"postgres_statement_rows_total", func(s *statement, v float64) { s.Rows = v }},
		{"postgres_statement_blocks_read_total", func(s *statement, v float64) { s.Read = v }},
		{"postgres_statement_wal_bytes_total", func(s *statement, v float64) { s.WAL = v }},
		{"postgres_statement_temp_written_bytes_total", func(s *statement, v float64) { s.Temp = v }},
	} {
		ns, err := d.rates(eq(f.metric, "host", d.Host, "server", d.Server), "database", "queryid")
		if err != nil {
			return list[statement]{Why: err.Error()}
		}
		for _, n := range ns {
			key := n.get("database") + "\x00" + n.get("queryid")
			if all[key] == nil {
				all[key] = &statement{ID: n.get("queryid"), Database: n.get("database")}
			}
			f.set(all[key], n.value)
		}
	}
	texts, err := d.texts()
	if err != nil {
		return list[statement]{Why: err.Error()}
	}
	var out []statement
	for _, s := range all {
		if s.Calls > 0 || s.Busy > 0 {
			s.Share, s.Mean, s.Query = s.Busy/math.Max(total, 1e-12), s.Busy/math.Max(s.Calls, 1e-12), cmp.Or(texts[s.ID], fmt.Sprintf("(text not known, id %s)", s.ID))
			out = append(out, *s)
		}
	}
	slices.SortFunc(out, func(a, b statement) int { return cmp.Or(cmp.Compare(b.Busy, a.Busy), cmp.Compare(a.ID, b.ID)) })
	if len(out) == 0 {
		because, hint := d.why("postgres_statement_seconds_total")
		return list[statement]{Why: cmp.Or(because, "no statement was counted in this range"), Hint: hint}
	}
	return list[statement]{List: out[:min(listed, len(out))]}
}

// texts are the statements by id.
func (d tablesData) texts() (map[string]string, error) {
	st, err := d.p.store()
	if err != nil {
		return nil, err
	}
	infos, err := st.Series(d.r.Context(), eq("postgres_statement_info", "host", d.Host, "server", d.Server), d.from.AddDate(0, 0, -1), d.to, 5000)
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, i := range infos {
		out[i.Series.Get("queryid")] = i.Series.Get("query")
	}
	return out, nil
}
