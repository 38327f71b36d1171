package postgres

import (
	"fmt"
	"math"
	"strings"

	"headroom/change"
	"headroom/check"
	"headroom/fact"
	"headroom/probe/pg"
	"headroom/unit"
)

var autovacuumOff = &check.Check{
	Name: "postgres.autovacuum-off",
	Doc: check.Doc{
		Title:    "Autovacuum is switched off",
		Why:      "Without it dead rows stay for ever (S5 saw 3 GB of data in 45 GB), the planner's figures grow old, and in the end the server stops taking writes to save its transaction numbers.",
		Evidence: "autovacuum and track_counts (without counts autovacuum does nothing).",
		Fix:      "autovacuum=on, track_counts=on. If it was off because it disturbed, make it gentler, not absent.",
		Risk:     "Reading and writing by the vacuum workers: much at first, if it has been off for long.",
		Undo:     undoSetting,
		Sources:  []string{"S5", "S21", "https://www.postgresql.org/docs/current/routine-vacuuming.html"},
	},
	Needs: []fact.Any{pg.Settings, pg.Tables},
	Run: func(s *fact.Set, out *check.Report) {
		c, inv := fact.Get(s, pg.Settings), fact.Get(s, pg.Tables)
		for _, name := range []string{"autovacuum", "track_counts"} {
			if !told(c, out, name) || !c.Off(name) {
				continue
			}
			out.Found(check.Finding{Subject: server, Severity: check.Danger, Basis: check.Measured, Worth: 0.6,
				Summary:  fmt.Sprintf("%s is off: nothing cleans up behind updates and deletes (%s dead rows in database %s now).", name, unit.Format(float64(inv.Dead), unit.Count), pg.Quote(inv.Database)),
				Evidence: []check.Cite{cite(c, name), figure("dead rows", inv.Dead, unit.Count, "pg_stat_get_dead_tuples()")},
				Fixes:    []change.Spec{set(name, "on")}})
		}
	},
}

// big is the number of rows from which the default share of dead rows is a lot.
const big = 10_000_000

var autovacuumLazy = &check.Check{
	Name: "postgres.autovacuum-lazy",
	Doc: check.Doc{
		Title: "Autovacuum waits too long, or works too slowly, for large tables",
		Why: "By default it comes when a fifth of a table is dead: for 100 million rows that is 20 million dead ones, read by every scan and kept in every index. " +
			"And its workers together may dirty 40 MB/s of pages by default (cost limit 200, 20 for each page, every 2 ms), a tenth of that with the delay of PostgreSQL 11.",
		Evidence: "Tables of 10 million rows and more with a scale factor of 0.1 or more (their own options honoured), and autovacuum_vacuum_cost_delay above 2 ms.",
		Fix:      "autovacuum_vacuum_scale_factor=0.02 for all, or for the large tables only (ALTER TABLE … SET).",
		Risk:     "Vacuum runs more often; each run is shorter.",
		Undo:     undoSetting,
		Sources:  []string{"S5", "https://www.postgresql.org/docs/current/runtime-config-vacuum.html"},
	},
	Needs: []fact.Any{pg.Settings, pg.Tables},
	Quiet: []string{"postgres.autovacuum-off*"},
	Run: func(s *fact.Set, out *check.Report) {
		v, ok := numbers(s, out, "autovacuum_vacuum_cost_delay", "autovacuum_vacuum_scale_factor")
		if !ok {
			return
		}
		c := fact.Get(s, pg.Settings)
		if v[0] > 2.5e-3 {
			out.Found(check.Finding{Subject: server, Severity: check.Advice, Basis: check.ByRule, Worth: 0.07,
				Summary: fmt.Sprintf("autovacuum_vacuum_cost_delay is %s: autovacuum sleeps %s times as long as it does by default since PostgreSQL 12 (2 ms).",
					c.Shown("autovacuum_vacuum_cost_delay"), unit.Format(v[0]/2e-3, unit.None)),
				Evidence: []check.Cite{cite(c, "autovacuum_vacuum_cost_delay")},
				Fixes:    []change.Spec{set("autovacuum_vacuum_cost_delay", "2ms")}})
		}
		n, worst := 0, pg.Table{}
		for _, t := range fact.Get(s, pg.Tables).Tables {
			if float64(t.Live) >= big && t.Auto && t.Scale >= 0.1 && t.VacuumAt >= 0.1*big {
				n++
				if t.VacuumAt > worst.VacuumAt {
					worst = t
				}
			}
		}
		if n == 0 {
			return
		}
		f := check.Finding{Subject: server, Severity: check.Advice, Basis: check.ByRule, Worth: 0.09,
			Summary: fmt.Sprintf("Autovacuum comes to table %s (%s rows) only after %s rows have died.",
				worst.Quoted(), unit.Format(float64(worst.Live), unit.Count), unit.Format(math.Round(worst.VacuumAt), unit.Count)),
			Evidence: []check.Cite{cite(c, "autovacuum_vacuum_scale_factor"), figure("vacuum of "+worst.Quoted()+" at", worst.VacuumAt, unit.Count, "threshold + scale factor × rows")}}
		if n > 1 {
			f.Summary += " " + more(n-1, "large table is", "large tables are") + " like that."
		}
		if v[1] >= 0.1 {
			f.Fixes = append(f.Fixes, set("autovacuum_vacuum_scale_factor", "0.02"))
		}
		f.Hint = "Or for this table only: ALTER TABLE " + worst.Quoted() + " SET (autovacuum_vacuum_scale_factor = 0.02);"
		out.Found(f)
	},
}

// patience is how long a table may be due before it counts as late: autovacuum
// looks once a minute and takes its time.
const patience = 600

// shownTables is how many late tables get a finding of their own.
const shownTables = 5

var tableDue = &check.Check{
	Name: "postgres.table-due",
	Doc: check.Doc{
		Title: "Tables that autovacuum should have cleaned and has not",
		Why: "A table past its own threshold for long means that autovacuum cannot keep up, is blocked by an old transaction or a lock, or is switched off for it. " +
			"Until it has been there, queries read the dead rows as well.",
		Evidence: "Dead rows against the table's threshold (its own options honoured) and the time since its last vacuum. Fires at twice the threshold, or past it for 10 minutes without a vacuum; from 10,000 dead rows on.",
		Fix:      "VACUUM (ANALYZE) the table; then find out why: an old transaction (see postgres.old-transaction), autovacuum_enabled=off on the table, or too few or too slow workers.",
		Risk:     "VACUUM reads the table and its indexes; it blocks neither reads nor writes.",
		Undo:     "Not needed: nothing but dead rows is removed.",
		Sources:  []string{"S5", "https://www.postgresql.org/docs/current/routine-vacuuming.html#AUTOVACUUM"},
	},
	Needs: []fact.Any{pg.Settings, pg.Tables},
	Quiet: []string{"postgres.autovacuum-off*"},
	Run:   runTableDue,
}

func runTableDue(s *fact.Set, out *check.Report) {
	c, inv := fact.Get(s, pg.Settings), fact.Get(s, pg.Tables)
	if !told(c, out, "track_counts") {
		return
	}
	if c.Off("track_counts") {
		out.Unknown(server, "track_counts is off: dead rows are not counted")
		return
	}
	rest, rows := 0, 0.0
	for i, t := range late(inv.Tables) {
		if i >= shownTables {
			rest, rows = rest+1, rows+float64(t.Dead)
			continue
		}
		share := float64(t.Dead) / math.Max(float64(t.Dead+t.Live), 1)
		f := check.Finding{Subject: "table " + t.Quoted(), Severity: check.Advice, Basis: check.Measured, Worth: math.Min(0.3, 0.05+share/3),
			Summary: fmt.Sprintf("%s dead rows beside %s live ones; autovacuum should come at %s.%s",
				unit.Format(float64(t.Dead), unit.Count), unit.Format(float64(t.Live), unit.Count), unit.Format(math.Round(t.VacuumAt), unit.Count), lastVacuum(t)),
			Evidence: []check.Cite{figure("dead rows", t.Dead, unit.Count, "pg_stat_get_dead_tuples()"), figure("threshold", math.Round(t.VacuumAt), unit.Count, "settings and reloptions")},
			Hint:     "VACUUM (ANALYZE) " + t.Quoted() + ";"}
		if !t.Auto {
			f.Summary += " autovacuum_enabled is off for this table."
			f.Hint += " And switch it on again: ALTER TABLE " + t.Quoted() + " RESET (autovacuum_enabled);"
		}
		if share > 0.5 {
			f.Severity = check.Warning
		}
		out.Found(f)
	}
	if rest > 0 {
		out.Found(check.Finding{Subject: "database " + pg.Quote(inv.Database), Severity: check.Advice, Basis: check.Measured, Worth: 0.05,
			Summary:  more(rest, "table is", "tables are") + " past the vacuum threshold, with " + unit.Format(rows, unit.Count) + " dead rows.",
			Evidence: []check.Cite{figure("dead rows in them", rows, unit.Count, "pg_stat_get_dead_tuples()")},
			Hint:     "VACUUM (ANALYZE); does the whole database. If it recurs, autovacuum needs more workers or less delay."})
	}
}

// late picks the tables that are past their threshold beyond what is usual.
func late(ts []pg.Table) []pg.Table {
	var out []pg.Table
	for _, t := range ts {
		since := math.Inf(1)
		for _, o := range []fact.Opt[float64]{t.Vacuumed, t.AutoVacuumed} {
			if o.OK() {
				since = math.Min(since, o.Value)
			}
		}
		if t.Dead >= 10_000 && t.Due() && (float64(t.Dead) >= 2*t.VacuumAt || since > patience && !math.IsInf(since, 1)) {
			out = append(out, t)
		}
	}
	return out
}

func lastVacuum(t pg.Table) string {
	switch {
	case t.AutoVacuumed.OK() && (!t.Vacuumed.OK() || t.AutoVacuumed.Value < t.Vacuumed.Value):
		return " Autovacuum was last there " + unit.Seconds(t.AutoVacuumed.Value) + " ago."
	case t.Vacuumed.OK():
		return " It was last vacuumed, by hand, " + unit.Seconds(t.Vacuumed.Value) + " ago."
	}
	return " It has not been there since the statistics began."
}

// The server refuses new transactions 3 million before 2^31.
const lastXID = 1<<31 - 3_000_000

var transactionAge = &check.Check{
	Name: "postgres.transaction-id-age",
	Doc: check.Doc{
		Title:    "Transaction numbers run out",
		Why:      "Transaction numbers have 32 bits. Vacuum must freeze old rows before 2 billion more transactions have passed; else the server refuses every write until somebody has vacuumed by hand, which takes hours on a large table.",
		Evidence: "Age of the oldest transaction per database, and autovacuum_freeze_max_age, at which autovacuum freezes on its own. Fires at 1.5 times that age, as a warning at 1 billion, as a danger at 1.6 billion.",
		Fix:      "Find what holds it back (an old transaction, a prepared one, an unused replication slot), then VACUUM (FREEZE) the oldest tables.",
		Risk:     "VACUUM FREEZE reads whole tables and writes much log.",
		Undo:     "Not needed.",
		Sources:  []string{"https://www.postgresql.org/docs/current/routine-vacuuming.html#VACUUM-FOR-WRAPAROUND"},
	},
	Needs: []fact.Any{pg.Settings, pg.Databases, pg.Tables},
	Run: func(s *fact.Set, out *check.Report) {
		v, ok := numbers(s, out, "autovacuum_freeze_max_age")
		if !ok {
			return
		}
		inv := fact.Get(s, pg.Tables)
		for _, d := range fact.Get(s, pg.Databases) {
			age := float64(d.FrozenAge)
			if age < 1.5*v[0] && age < 1e9 {
				continue
			}
			f := check.Finding{Subject: "database " + pg.Quote(d.Name), Severity: check.Advice, Basis: check.Measured, Worth: age / lastXID,
				Summary: fmt.Sprintf("Its oldest transaction is %s transactions old; autovacuum should have frozen it at %s, and the server stops taking writes at %s.",
					unit.Format(age, unit.Count), unit.Format(v[0], unit.Count), unit.Format(lastXID, unit.Count)),
				Evidence: []check.Cite{figure("age", age, unit.Count, "pg_database age(datfrozenxid)"), cite(fact.Get(s, pg.Settings), "autovacuum_freeze_max_age")}}
			switch {
			case age >= 1.6e9:
				f.Severity = check.Danger
			case age >= 1e9:
				f.Severity = check.Warning
			}
			if d.Name == inv.Database {
				f.Hint = oldest(inv.Tables)
			}
			if f.Hint == "" {
				f.Hint = "Connect to it and VACUUM (FREEZE) its oldest tables; first end old transactions and drop unused replication slots."
			}
			out.Found(f)
		}
	},
}

// oldest names the tables to freeze first.
func oldest(ts []pg.Table) string {
	var names []string
	for _, t := range ts {
		if t.FreezeAt > 0 && t.FrozenAge > t.FreezeAt && len(names) < 3 {
			names = append(names, t.Quoted())
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "VACUUM (FREEZE) " + strings.Join(names, ", ") + "; first end old transactions and drop unused replication slots."
}
