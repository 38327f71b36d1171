package postgres

import (
	"fmt"
	"sort"
	"strings"

	"headroom/change"
	"headroom/check"
	"headroom/fact"
	"headroom/probe/pg"
	"headroom/unit"
)

var pendingRestart = &check.Check{
	Name: "postgres.pending-restart",
	Doc: check.Doc{
		Title:    "Settings in the files wait for a restart",
		Why:      "The server does not run with what its files say. The next restart, perhaps an unplanned one at night, brings the change.",
		Evidence: "pending_restart of each setting.",
		Fix:      "Restart the server at a time of your choice, or take the line out of the file.",
		Risk:     "A restart cuts every connection and empties shared_buffers.",
		Undo:     "Put the former value back into the file.",
		Sources:  []string{"S21", "https://www.postgresql.org/docs/current/view-pg-settings.html"},
	},
	Needs: settingsOnly,
	Run: func(s *fact.Set, out *check.Report) {
		c := fact.Get(s, pg.Settings)
		var names []string
		for n, v := range c.All {
			if v.Pending {
				names = append(names, n)
			}
		}
		if len(names) == 0 {
			return
		}
		sort.Strings(names)
		f := check.Finding{Subject: server, Severity: check.Warning, Basis: check.Measured, Worth: 0.2,
			Summary: "The files hold other values than the server runs with, until it is restarted: " + strings.Join(names, ", ") + ".",
			Hint:    "Restart the server at a time of your choice, before something else does."}
		for _, n := range names {
			f.Evidence = append(f.Evidence, cite(c, n))
		}
		out.Found(f)
	},
}

var statementStatistics = &check.Check{
	Name: "postgres.statement-statistics",
	Doc: check.Doc{
		Title:    "Nobody counts what each statement costs",
		Why:      "pg_stat_statements adds up time, rows and pages per kind of statement. Without it there is no telling which ones are worth work.",
		Evidence: "Whether the module is loaded at server start, and installed in this database.",
		Fix:      "shared_preload_libraries=pg_stat_statements (beside what is there), a restart, CREATE EXTENSION pg_stat_statements.",
		Risk:     "A restart, and a percent or so of time. Statements are kept without their values, but visible to roles with pg_read_all_stats.",
		Undo:     "`headroom revert ID` drops the extension and restores the list of libraries.",
		Sources:  []string{"S24", "https://www.postgresql.org/docs/current/pgstatstatements.html"},
	},
	Needs: []fact.Any{pg.Servers, pg.Statements},
	Run: func(s *fact.Set, out *check.Report) {
		st := fact.Get(s, pg.Statements)
		f := check.Finding{Subject: server, Severity: check.Advice, Basis: check.Measured, Worth: 0.04,
			Fixes: []change.Spec{{ID: extensionID, Object: "pg_stat_statements"}},
			Evidence: []check.Cite{{Name: "loaded", Value: st.Loaded.Value, Source: "pg_settings"},
				{Name: "installed", Value: st.Installed, Source: "pg_available_extensions"}}}
		switch {
		case !st.Loaded.OK():
			out.Unknown(server, st.Loaded.Because)
			return
		case !st.Loaded.Value && !st.Available:
			f.Summary, f.Fixes = "pg_stat_statements is not there: nobody counts what each statement costs.", nil
			f.Hint = "Install the contrib modules of this server's packages first."
		case !st.Loaded.Value:
			f.Summary = "pg_stat_statements is not loaded: nobody counts what each statement costs."
		case !st.Installed:
			f.Summary = "pg_stat_statements counts, but is not installed in database " + pg.Quote(fact.Get(s, pg.Servers).Database) + ", so nobody can read it there."
			f.Severity = check.Note
		default:
			return
		}
		if fact.Get(s, pg.Servers).Recovery && len(f.Fixes) > 0 {
			f.Fixes, f.Hint = nil, "This server is a standby: install it on the primary, and load it on both."
		}
		out.Found(f)
	},
}

// logs are the settings that make the server tell what it would otherwise keep
// to itself, and the value that is proposed.
var logs = []struct{ name, off, propose, tells string }{
	{"log_min_duration_statement", "-1", "1s", "slow statements"},
	{"log_lock_waits", "off", "on", "long waits for locks"},
	{"log_temp_files", "-1", "10MB", "sorts that go to disk"},
	{"log_autovacuum_min_duration", "-1", "1min", "slow vacuums"},
	{"log_checkpoints", "off", "on", "checkpoints"},
}

var logging = &check.Check{
	Name: "postgres.logging",
	Doc: check.Doc{
		Title:    "The log is silent about what makes servers slow",
		Why:      "Slow statements, waits for locks, sorts that go to disk, checkpoints: one line each in the log answers most questions afterwards, and without it there is nothing to look at.",
		Evidence: "log_min_duration_statement, log_lock_waits, log_temp_files, log_autovacuum_min_duration, log_checkpoints. Fires if statements are not logged by time or waits for locks are not, and nothing like auto_explain does it instead.",
		Fix:      "The settings at moderate values: statements from 1 s on, not all of them.",
		Risk:     "A larger log. Logged statements hold their values: mind who can read the log, and that its disk does not fill (S15).",
		Undo:     undoSetting,
		Sources:  []string{"S15", "S24", "https://www.postgresql.org/docs/current/runtime-config-logging.html"},
	},
	Needs: settingsOnly,
	Run: func(s *fact.Set, out *check.Report) {
		c := fact.Get(s, pg.Settings)
		if !told(c, out, "log_min_duration_statement", "log_lock_waits") {
			return
		}
		f := check.Finding{Subject: server, Severity: check.Note, Basis: check.Measured, Worth: 0.1}
		var silent, pairs []string
		for _, l := range logs {
			if c.Text(l.name) != l.off {
				continue
			}
			silent, pairs = append(silent, l.tells), append(pairs, l.name, l.propose)
			f.Evidence = append(f.Evidence, cite(c, l.name))
		}
		explained := c.Text("auto_explain.log_min_duration") != "" && c.Text("auto_explain.log_min_duration") != "-1"
		if explained || c.Text("log_min_duration_statement") != "-1" && !c.Off("log_lock_waits") {
			return
		}
		f.Summary = "The log says nothing of " + sentence(silent) + "."
		f.Fixes = []change.Spec{set(pairs...)}
		out.Found(f)
	},
}

// sentence joins words: "a, b or c".
func sentence(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}

var replicationSlot = &check.Check{
	Name: "postgres.replication-slot",
	Doc: check.Doc{
		Title:    "A replication slot that nobody reads keeps the write-ahead log",
		Why:      "The server keeps all log that a slot has not read yet, without limit unless max_slot_wal_keep_size is set. A forgotten slot fills the disk, and the server stops. A logical one also keeps vacuum from cleaning the catalogs.",
		Evidence: "Slots that are not active, and the log kept for them. Fires from 1 GB on, as a warning from 10 GB on.",
		Fix:      "Drop the slot if its reader is gone: SELECT pg_drop_replication_slot('…'). Set max_slot_wal_keep_size to a size that the disk can bear.",
		Risk:     "A standby or subscriber whose slot is dropped must be set up again.",
		Undo:     "A dropped slot does not come back: its reader must start afresh.",
		Sources:  []string{"https://www.postgresql.org/docs/current/view-pg-replication-slots.html"},
	},
	Needs: []fact.Any{pg.Settings, pg.Replication},
	Run: func(s *fact.Set, out *check.Report) {
		c := fact.Get(s, pg.Settings)
		for _, slot := range fact.Get(s, pg.Replication).Slots {
			if slot.Active || !slot.Retained.OK() || slot.Retained.Value < unit.GB {
				continue
			}
			kept := float64(slot.Retained.Value)
			f := check.Finding{Subject: "slot " + slot.Name, Severity: check.Advice, Basis: check.Measured, Worth: min(0.8, kept/(100*unit.GB)),
				Summary:  fmt.Sprintf("Nobody reads this %s slot, and the server keeps %s of write-ahead log for it.", slot.Kind, unit.Format(kept, unit.Byte)),
				Evidence: []check.Cite{figure("log kept", kept, unit.Byte, "pg_replication_slots restart_lsn")},
				Hint:     "If its reader is gone for good: SELECT pg_drop_replication_slot('" + strings.ReplaceAll(slot.Name, "'", "''") + "');"}
			if kept >= 10*unit.GB {
				f.Severity = check.Warning
			}
			if v, ok := c.Number("max_slot_wal_keep_size"); ok && v < 0 {
				f.Hint += " A limit for all: max_slot_wal_keep_size."
			}
			out.Found(f)
		}
	},
}
