package page

import (
	"strings"

	"headroom/topic/postgres"
)

// postgresData is the page of one server.
type postgresData struct {
	chartsData
}

func transactionsChart(s scope, title string) Chart {
	return Chart{Title: title, Help: "commits and rollbacks a second, of all databases", Unit: "count/s",
		Lines: []Line{s.rate("commits", "postgres_database_commits_total"), s.rate("rollbacks", "postgres_database_rollbacks_total")}}
}

func (p *pages) postgres(v *view) (string, bool, any) {
	d := postgresData{chartsData{view: v}}
	if v.Server == "" {
		return "postgres", false, d
	}
	s := hostScope(v.Host).server(v.Server)
	d.Sections = []section{
		{ID: "work", Title: "Work", Charts: workCharts(s)},
		{ID: "connections", Title: "Connections, waits, locks", Charts: waitCharts(s)},
		{ID: "wal", Title: "Write-ahead log and checkpoints", Charts: walCharts(s)},
		{ID: "replication", Title: "Replication", Charts: replicationCharts(s)},
		{ID: "vacuum", Title: "Vacuum", Charts: vacuumCharts(s)},
	}
	return "postgres", true, d
}

func workCharts(s scope) []Chart {
	const blocks = `{__name__=~"postgres_database_blocks_(hit|read)_total"}`
	return []Chart{
		transactionsChart(s, "Transactions"),
		{Title: "Rows", Help: "of all databases", Unit: "count/s", Lines: []Line{
			s.rate("inserted", "postgres_database_rows_inserted_total"), s.rate("updated", "postgres_database_rows_updated_total"),
			s.rate("deleted", "postgres_database_rows_deleted_total"), s.rate("fetched by index", "postgres_database_rows_fetched_total")}},
		{Title: "Rows read by scans", Help: "rows that scans of tables and indexes went over", Unit: "count/s", Lines: []Line{s.rate("{database}", "postgres_database_rows_returned_total", "database").top(8)}},
		{Title: "Cache hits", Help: "share of blocks found in shared_buffers", Unit: "ratio", Max: one, Lines: []Line{s.rate("found", "postgres_database_blocks_hit_total").overRate(s, blocks)}},
		{Title: "Blocks from outside shared_buffers", Help: "from the page cache or the disk", Unit: "count/s", Lines: []Line{s.rate("{database}", "postgres_database_blocks_read_total", "database").top(8)}},
		{Title: "Temporary files", Help: "written by sorts and hashes that did not fit work_mem", Unit: "bytes/s", Lines: []Line{s.rate("{database}", "postgres_database_temp_bytes_total", "database").top(8)}},
		{Title: "Size of databases", Help: "on disk", Unit: "bytes", Lines: []Line{s.gauge("{database}", "postgres_database_bytes", "database").top(8)}},
		{Title: "Deadlocks and conflicts", Help: "broken deadlocks; statements cancelled on a standby", Unit: "count/s", Lines: []Line{s.rate("deadlocks", "postgres_database_deadlocks_total"), s.rate("conflicts", "postgres_database_conflicts_total")}},
	}
}

func waitCharts(s scope) []Chart {
	return []Chart{
		{Title: "Connections by state", Help: "clients, and how many the server takes", Unit: "count", Lines: []Line{s.gauge("{state}", "postgres_connections", "state"), s.gauge("limit", "postgres_connections_limit")}},
		{Title: "Running statements by what they wait for", Help: "CPU: for nothing that the server can name", Unit: "count", Stack: true, Lines: []Line{s.gauge("{wait}", "postgres_active_sessions", "wait")}},
		{Title: "Waits by event", Help: "sessions that run a statement and wait", Unit: "count", Lines: []Line{s.gauge("{type}: {event}", "postgres_wait_sessions", "type", "event").top(8)},
			Empty: "No statement waited in this range."},
		{Title: "Age of the oldest", Help: "open transaction, running statement, idle in transaction", Unit: "seconds", Lines: []Line{
			s.gauge("transaction", "postgres_oldest_transaction_seconds").max(), s.gauge("statement", "postgres_oldest_statement_seconds").max(), s.gauge("idle in transaction", "postgres_longest_idle_in_transaction_seconds").max()}},
		{Title: "Locks held", Help: "by mode", Unit: "count", Lines: []Line{s.gauge("{mode}", "postgres_locks", "mode").top(8)}},
		{Title: "Waiting for locks", Help: "sessions that wait for a lock, and the longest wait", Unit: "count", Lines: []Line{s.gauge("sessions", "postgres_sessions_blocked").max()}},
		{Title: "Longest wait for a lock", Help: "of any session", Unit: "seconds", Lines: []Line{s.gauge("wait", "postgres_longest_lock_wait_seconds").max()}},
	}
}

func walCharts(s scope) []Chart {
	return []Chart{
		{Title: "WAL written", Help: "bytes of write-ahead log a second", Unit: "bytes/s", Lines: []Line{s.rate("written", "postgres_wal_bytes_total")}},
		{Title: "Full-page images", Help: "pages logged whole because a checkpoint had come before", Unit: "count/s", Lines: []Line{s.rate("images", "postgres_wal_page_images_total"), s.rate("records", "postgres_wal_records_total")}},
		{Title: "Flushes of WAL", Help: "times that its files were flushed, and times that wal_buffers were full", Unit: "count/s", Lines: []Line{s.rate("flushes", "postgres_wal_syncs_total"), s.rate("buffers full", "postgres_wal_buffers_full_total")}},
		{Title: "Time of a flush", Help: "mean", Unit: "seconds", Lines: []Line{s.rate("flush", "postgres_wal_sync_seconds_total").overRate(s, "postgres_wal_syncs_total")}},
		{Title: "Checkpoints", Help: "begun by time, and because the log was full or something asked", Unit: "count", Lines: []Line{
			{Match: s.sel("postgres_checkpoints_timed_total"), Func: "increase", Agg: "sum", Label: "by time"}, {Match: s.sel("postgres_checkpoints_requested_total"), Func: "increase", Agg: "sum", Label: "requested"}}},
		{Title: "Log since the last checkpoint", Help: "what a crash would have to replay, against max_wal_size", Unit: "bytes", Lines: []Line{
			s.gauge("since the checkpoint", "postgres_checkpoint_distance_bytes"), s.gauge("max_wal_size", `postgres_setting_bytes{setting="max_wal_size"}`)}},
		{Title: "WAL on disk", Help: "files in the folder of the log", Unit: "bytes", Lines: []Line{s.gauge("files", "postgres_wal_files_bytes"), s.gauge("max_wal_size", `postgres_setting_bytes{setting="max_wal_size"}`)}},
		{Title: "Blocks written", Help: "by whom", Unit: "count/s", Lines: []Line{
			s.rate("checkpoints", "postgres_checkpoint_buffers_total"), s.rate("background writer", "postgres_bgwriter_buffers_total"), s.rate("sessions", "postgres_backend_buffers_total")}},
		{Title: "Archiving", Help: "files archived, and attempts that failed", Unit: "count/s", Lines: []Line{s.rate("archived", "postgres_archived_files_total"), s.rate("failed", "postgres_archive_failures_total")}},
	}
}

func replicationCharts(s scope) []Chart {
	none := "No standby and no slot is attached to this server."
	return []Chart{
		{Title: "Standbys behind, bytes", Help: "log not yet replayed by each standby", Unit: "bytes", Empty: none, Lines: []Line{s.gauge("{standby}", "postgres_standby_replay_lag_bytes", "standby"), s.gauge("here", "postgres_replay_lag_bytes")}},
		{Title: "Standbys behind, time", Help: "until each had replayed a recent commit", Unit: "seconds", Empty: none, Lines: []Line{s.gauge("{standby}", "postgres_standby_replay_lag_seconds", "standby").max(), s.gauge("here", "postgres_replay_lag_seconds").max()}},
		{Title: "Log kept for slots", Help: "grows until the disk is full where nobody reads the slot", Unit: "bytes", Empty: none, Lines: []Line{s.gauge("{slot}", "postgres_slot_retained_bytes", "slot")}},
	}
}

func vacuumCharts(s scope) []Chart {
	return []Chart{
		{Title: "Vacuum workers", Help: "running, and how many may run", Unit: "count", Lines: []Line{s.gauge("{kind}", "postgres_vacuum_workers", "kind"), s.gauge("limit", "postgres_autovacuum_workers_limit")}},
		{Title: "Progress of vacuums", Help: "share of the table that was scanned", Unit: "ratio", Max: one, Empty: "No vacuum ran in this range.", Lines: []Line{s.gauge("{database} {schema}.{table}", "postgres_vacuum_progress_ratio", "database", "schema", "table").top(8)}},
		{Title: "Dead rows", Help: "of the tables that have most", Unit: "count", Lines: []Line{s.gauge("{schema}.{table}", "postgres_table_dead_rows", "database", "schema", "table").top(8)}},
		{Title: "Age of the oldest transaction id", Help: "at 2^31 (2.1 G) the server stops taking writes", Unit: "count", Lines: []Line{s.gauge("{database}", "postgres_database_xid_age", "database").max().top(8)}},
		{Title: "Held back", Help: "transactions since the oldest that a holder may still look back to: vacuum cannot remove what died since", Unit: "count", Lines: []Line{s.gauge("{holder}", "postgres_xmin_age", "holder").max()}},
	}
}

// sessionList is what runs now, or why that cannot be told.
type sessionList struct {
	Why  string
	Wait string // it was asked for
	Told string // how old it is, if it came from another host
	List []postgres.Session
	Idle int // not listed
}

// GapsHere are the gaps of the server.
func (v *view) GapsHere() (out []gap) {
	gaps, _, err := v.p.Parts.GapsOf(v.Host)
	if err != nil {
		return nil // GapsWhy says so
	}
	for _, g := range gaps {
		if g.Server == "" || g.Server == v.Server || v.Server == "" {
			out = append(out, gap{g.Collector, g.Server, strings.Join(g.Metrics, ", "), g.Because, g.Hint})
		}
	}
	return out
}

type gap struct{ Collector, Server, Metrics, Because, Hint string }
