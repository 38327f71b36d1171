package postgres

import (
	"fmt"
	"math"

	"headroom/change"
	"headroom/check"
	"headroom/fact"
	"headroom/probe/pg"
	"headroom/probe/place"
	"headroom/probe/proc"
	"headroom/unit"
)

var latencyNeeds = []fact.Any{pg.Servers, pg.Settings, place.Latencies}

// measuredRead is the measured latency as evidence.
func measuredRead(l place.Latency) check.Cite {
	return figure("random read, median", l.Read.P50, unit.Second, "timed reads of "+l.Read.What)
}

var randomPageCost = &check.Check{
	Name: "postgres.random-page-cost",
	Doc: check.Doc{
		Title:    "random_page_cost does not fit how the storage answers",
		Why:      "The planner takes a random read to be this many times as dear as the next one in sequence. 4 is for disks that turn; on flash it makes the planner read whole tables where an index would do.",
		Evidence: "random_page_cost, and the measured time of random reads on the data folder's device. Fires at 2 and above on storage that answers like flash, and below 2 on storage that answers like a turning disk.",
		Fix:      "1.1 on flash, 4 on turning disks. Tablespaces on other devices take their own (ALTER TABLESPACE … SET).",
		Risk:     "Plans change; look at your slowest queries afterwards.",
		Undo:     undoSetting,
		Sources:  []string{"S2", "S26", "https://www.postgresql.org/docs/current/runtime-config-query.html#GUC-RANDOM-PAGE-COST"},
	},
	Needs: latencyNeeds,
	Run: func(s *fact.Set, out *check.Report) {
		v, ok := numbers(s, out, "random_page_cost")
		if !ok || !here(s, out) {
			return
		}
		c, l := fact.Get(s, pg.Settings), fact.Get(s, place.Latencies)
		want := ""
		switch {
		case l.Class == place.Unclear:
			out.Unknown(server, "what kind of storage this is: "+l.Why)
		case l.Class == place.Flash && v[0] >= 2:
			want = "1.1"
		case l.Class == place.Spinning && v[0] < 2:
			want = "4"
		}
		if want == "" {
			return
		}
		out.Found(check.Finding{Subject: server, Severity: check.Advice, Basis: check.ByRule, Worth: 0.1,
			Summary: fmt.Sprintf("random_page_cost is %s, which fits %s; half of the random reads here took at most %s.",
				c.Shown("random_page_cost"), map[bool]string{true: "disks that turn", false: "flash"}[v[0] >= 2], unit.Seconds(l.Read.P50)),
			Hint:     "It shows on queries that could use an index: try it with your own (pg.script).",
			Evidence: []check.Cite{cite(c, "random_page_cost"), measuredRead(l)},
			Fixes:    []change.Spec{set("random_page_cost", want)}})
	},
}

var ioConcurrency = &check.Check{
	Name: "postgres.io-concurrency",
	Doc: check.Doc{
		Title:    "effective_io_concurrency asks flash for one page at a time",
		Why:      "Bitmap scans can ask for several pages ahead. Flash answers many requests at once; a turning disk does not. 1 was the default up to PostgreSQL 17; S1 gained with 8.",
		Evidence: "effective_io_concurrency and the measured time of random reads. Fires below 8 on storage that answers like flash.",
		Fix:      "effective_io_concurrency=32; trials tell whether more helps.",
		Risk:     "More reads in flight: other users of the same storage may wait longer.",
		Undo:     undoSetting,
		Sources:  []string{"S1", "https://www.postgresql.org/docs/current/runtime-config-resource.html#GUC-EFFECTIVE-IO-CONCURRENCY"},
	},
	Needs: latencyNeeds,
	Run: func(s *fact.Set, out *check.Report) {
		v, ok := numbers(s, out, "effective_io_concurrency")
		if !ok || !here(s, out) {
			return
		}
		c, l := fact.Get(s, pg.Settings), fact.Get(s, place.Latencies)
		if l.Class == place.Unclear {
			out.Unknown(server, "what kind of storage this is: "+l.Why)
			return
		}
		if l.Class != place.Flash || v[0] >= 8 {
			return
		}
		out.Found(check.Finding{Subject: server, Severity: check.Advice, Basis: check.ByRule, Worth: 0.04,
			Summary: fmt.Sprintf("effective_io_concurrency is %s on storage that answers like flash (half of the random reads took at most %s): bitmap scans wait for one page at a time.",
				c.Shown("effective_io_concurrency"), unit.Seconds(l.Read.P50)),
			Evidence: []check.Cite{cite(c, "effective_io_concurrency"), measuredRead(l)},
			Fixes:    []change.Spec{set("effective_io_concurrency", "32")}})
	},
}

var maxConnections = &check.Check{
	Name: "postgres.max-connections",
	Doc: check.Doc{
		Title:    "More connections than the CPUs can serve",
		Why:      "Beyond a few active connections per core nothing gets faster, and every query waits longer; each connection is a process. S20 saw the knee at about 30 per core with a pool, others advise 2…4. A pool of few connections serves many clients.",
		Evidence: "max_connections and the connections now, per core. Fires if max_connections is above 100 and above 50 per core, or if more than 4 per core are active at once.",
		Fix:      "A pool (PgBouncer, or in the application) and a max_connections of at most 30 per core. The sum of all pools must fit.",
		Risk:     "A restart; clients beyond the limit are refused.",
		Undo:     undoSetting,
		Sources:  []string{"S20", "https://www.postgresql.org/docs/current/runtime-config-connection.html#GUC-MAX-CONNECTIONS"},
	},
	Needs: []fact.Any{pg.Servers, pg.Settings, pg.Activity, proc.CPUs},
	Run: func(s *fact.Set, out *check.Report) {
		v, ok := numbers(s, out, "max_connections")
		if !ok || !here(s, out) {
			return
		}
		c, a, n := fact.Get(s, pg.Settings), fact.Get(s, pg.Activity), cores(fact.Get(s, proc.CPUs))
		crowded := a.Active.OK() && float64(a.Active.Value) > math.Max(4*n, 8)
		if !crowded && (v[0] <= 100 || v[0] <= 50*n) {
			return
		}
		f := check.Finding{Subject: server, Severity: check.Advice, Basis: check.ByRule, Worth: 0.08,
			Summary: fmt.Sprintf("max_connections is %s for %s cores, %s per core (%s connected now).",
				c.Shown("max_connections"), unit.Format(n, unit.Count), unit.Format(math.Round(v[0]/n), unit.Count), unit.Format(float64(a.Used), unit.Count)),
			Hint:     "Put a pool in front (PgBouncer): few connections serve many clients.",
			Evidence: []check.Cite{cite(c, "max_connections"), figure("cores", n, unit.Count, "/proc/stat, cgroup limit"), figure("connected", a.Used, unit.Count, "pg_stat_activity")}}
		if crowded {
			f.Basis, f.Worth = check.Measured, 0.2
			f.Summary = fmt.Sprintf("%s connections are active at once on %s cores: they wait for each other.",
				unit.Format(float64(a.Active.Value), unit.Count), unit.Format(n, unit.Count))
			f.Evidence = append(f.Evidence, figure("active", a.Active.Value, unit.Count, "pg_stat_activity"))
		}
		if fit := math.Max(100, math.Floor(30*n)); fit < v[0] && float64(a.Used) < fit*0.7 {
			f.Fixes = []change.Spec{set("max_connections", fmt.Sprintf("%.0f", fit))}
		}
		out.Found(f)
	},
}

var connectionRoom = &check.Check{
	Name: "postgres.connection-room",
	Doc: check.Doc{
		Title:    "Nearly all connections are taken",
		Why:      "When the last one is taken, new clients are refused, your monitoring among them.",
		Evidence: "Connections now against max_connections less those kept for superusers. Fires from 85 % on.",
		Fix:      "A pool, or end idle connections (idle_session_timeout, PostgreSQL 14 and newer). Raise max_connections last.",
		Risk:     "None from looking; ending idle connections shows in applications that keep them.",
		Undo:     undoSetting,
		Sources:  []string{"S15", "S20"},
	},
	Needs: []fact.Any{pg.Activity},
	Run: func(s *fact.Set, out *check.Report) {
		a := fact.Get(s, pg.Activity)
		room := a.Max - a.Reserved
		if room <= 0 || float64(a.Used) < 0.85*float64(room) {
			return
		}
		f := check.Finding{Subject: server, Severity: check.Warning, Basis: check.Measured, Worth: 0.5,
			Summary: fmt.Sprintf("%s connections are taken.", times(a.Used, room, "ordinary")),
			Hint:    "Put a pool in front, or let idle ones be ended.",
			Evidence: []check.Cite{figure("connected", a.Used, unit.Count, "pg_stat_activity"), figure("max_connections", a.Max, unit.Count, "pg_settings"),
				figure("superuser_reserved_connections", a.Reserved, unit.Count, "pg_settings")}}
		if a.Idle.OK() && a.Idle.Value > 0 {
			f.Summary += fmt.Sprintf(" %s of them are idle.", unit.Format(float64(a.Idle.Value), unit.Count))
		}
		out.Found(f)
	},
}

var oldTransaction = &check.Check{
	Name: "postgres.old-transaction",
	Doc: check.Doc{
		Title:    "A transaction has been open for long",
		Why:      "Vacuum removes nothing that an open transaction might still look at: tables and indexes grow as long as it stays open. Idle ones hold their locks, too.",
		Evidence: "Age of the oldest transaction, of the longest idle one, and of prepared transactions. Fires at 5 minutes of idling, 1 hour of running, 1 hour prepared.",
		Fix:      "End it in the application that holds it. idle_in_transaction_session_timeout=10min ends idle ones by itself.",
		Risk:     "Ending a transaction rolls it back; applications that idle on purpose get an error.",
		Undo:     undoSetting,
		Sources:  []string{"S5", "https://www.postgresql.org/docs/current/runtime-config-client.html#GUC-IDLE-IN-TRANSACTION-SESSION-TIMEOUT"},
	},
	Needs: []fact.Any{pg.Settings, pg.Activity},
	Run:   runOldTransaction,
}

func runOldTransaction(s *fact.Set, out *check.Report) {
	c, a := fact.Get(s, pg.Settings), fact.Get(s, pg.Activity)
	found := func(summary, hint string, worth float64, e check.Cite, fixes ...change.Spec) {
		out.Found(check.Finding{Subject: server, Severity: check.Warning, Basis: check.Measured, Worth: worth, Summary: summary, Hint: hint, Evidence: []check.Cite{e}, Fixes: fixes})
	}
	if a.OldestPrep >= 3600 {
		found(fmt.Sprintf("A transaction prepared for two-phase commit has been waiting for %s: vacuum cannot clean up behind it, and it survives restarts.", unit.Seconds(a.OldestPrep)),
			"See pg_prepared_xacts, then COMMIT PREPARED or ROLLBACK PREPARED it.", 0.5,
			figure("oldest prepared transaction", a.OldestPrep, unit.Second, "pg_prepared_xacts"))
	}
	if !a.OldestTx.OK() || !a.OldestIdle.OK() {
		out.Unknown(server, a.OldestTx.Because)
		return
	}
	const find = "Find it: SELECT pid, usename, application_name, xact_start FROM pg_stat_activity ORDER BY xact_start."
	switch {
	case a.OldestIdle.Value >= 300:
		var fixes []change.Spec
		if v, ok := c.Number("idle_in_transaction_session_timeout"); ok && v == 0 {
			fixes = append(fixes, set("idle_in_transaction_session_timeout", "10min"))
		}
		found(fmt.Sprintf("A session has been idle inside a transaction for %s: vacuum cannot clean up behind it, and it holds its locks.", unit.Seconds(a.OldestIdle.Value)),
			find, 0.4, figure("longest idle in transaction", a.OldestIdle.Value, unit.Second, "pg_stat_activity"), fixes...)
	case a.OldestTx.Value >= 3600:
		found(fmt.Sprintf("A transaction has been open for %s: vacuum cannot clean up behind it.", unit.Seconds(a.OldestTx.Value)),
			find, 0.3, figure("oldest transaction", a.OldestTx.Value, unit.Second, "pg_stat_activity"))
	}
}
