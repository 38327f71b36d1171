package pg

import (
	"context"

	"headroom/fact"
)

// Checkpoint is what the server counted about checkpoints since Since.
type Checkpoint struct {
	Since     float64           `json:"since" unit:"seconds" src:"stats_reset" doc:"time over which it was counted"`
	Timed     int64             `json:"timed" unit:"count" src:"pg_stat_bgwriter or pg_stat_checkpointer (17)" doc:"checkpoints begun because checkpoint_timeout was over"`
	Requested int64             `json:"requested" unit:"count" src:"pg_stat_bgwriter or pg_stat_checkpointer (17)" doc:"checkpoints begun because the write-ahead log was full, or because something asked for one (CHECKPOINT, a backup, CREATE DATABASE)"`
	Write     float64           `json:"write" unit:"seconds" src:"checkpoint_write_time" doc:"time spent writing pages"`
	Sync      float64           `json:"sync" unit:"seconds" src:"checkpoint_sync_time" doc:"time spent in fsync"`
	Buffers   int64             `json:"buffers" unit:"count" src:"buffers_checkpoint" doc:"pages written by checkpoints"`
	Cleaned   int64             `json:"cleaned" unit:"count" src:"buffers_clean" doc:"pages written by the background writer"`
	Backend   fact.Opt[int64]   `json:"backend" unit:"count" src:"buffers_backend (to 16)" doc:"pages that sessions had to write themselves"`
	Last      fact.Opt[float64] `json:"last" unit:"seconds" src:"pg_control_checkpoint()" doc:"time since the last completed checkpoint began"`
	WALSince  fact.Opt[int64]   `json:"wal_since" unit:"bytes" src:"pg_current_wal_lsn() - redo_lsn" doc:"write-ahead log written since the last completed checkpoint began"`
}

// Checkpoints is the fact "pg.checkpoints".
var Checkpoints = &fact.Source[Checkpoint]{
	Name: "pg.checkpoints", Doc: "how many checkpoints there were, why, and what they wrote",
	Read: func(ctx context.Context, in *fact.In) (Checkpoint, error) {
		var c Checkpoint
		var backend *int64
		err := one(ctx, in, "read the checkpoint statistics", "checkpoints", &c.Since, &c.Timed, &c.Requested, &c.Write, &c.Sync,
			&c.Buffers, &c.Cleaned, &backend)
		c.Backend = opt(backend, "PostgreSQL 17 and newer count this per kind of back end only")
		var last *float64
		var wal *int64
		ctlErr := one(ctx, in, "read the control file", "control", &last, &wal)
		c.Last, c.WALSince = opt(last, because(ctlErr)), opt(wal, because(ctlErr))
		return c, err
	},
}

// All is how many checkpoints there were.
func (c Checkpoint) All() int64 { return c.Timed + c.Requested }

// WALStat is what the server counted about its write-ahead log over Since.
// PostgreSQL 13 counts nothing: there Since goes back to the oldest full
// segment of the log that is left, or to the last checkpoint, and Bytes holds
// what archive_timeout left empty, too.
type WALStat struct {
	Since   float64         `json:"since" unit:"seconds" src:"pg_stat_wal stats_reset, or pg_ls_waldir() (13)" doc:"time over which it was counted"`
	Records fact.Opt[int64] `json:"records" unit:"count" src:"pg_stat_wal wal_records" doc:"records written"`
	Images  fact.Opt[int64] `json:"images" unit:"count" src:"pg_stat_wal wal_fpi" doc:"of them, pages logged whole because a checkpoint had come before"`
	Bytes   int64           `json:"bytes" unit:"bytes" src:"pg_stat_wal wal_bytes, or pg_current_wal_lsn() (13)" doc:"bytes written"`
	Full    fact.Opt[int64] `json:"full" unit:"count" src:"pg_stat_wal wal_buffers_full" doc:"times that wal_buffers were full and a session had to write"`
}

// WAL is the fact "pg.wal".
var WAL = &fact.Source[WALStat]{
	Name: "pg.wal", Doc: "how much write-ahead log is written, and how much of it is whole pages (counted since PostgreSQL 14)",
	Read: func(ctx context.Context, in *fact.In) (WALStat, error) {
		var w WALStat
		var records, images, full *int64
		err := one(ctx, in, "read the write-ahead log statistics", "wal", &w.Since, &records, &images, &w.Bytes, &full)
		const why = "counted since PostgreSQL 14"
		w.Records, w.Images, w.Full = opt(records, why), opt(images, why), opt(full, why)
		return w, err
	},
}

// Rate is the write-ahead log written per second, on average over Since.
func (w WALStat) Rate() float64 {
	if w.Since <= 0 {
		return 0
	}
	return float64(w.Bytes) / w.Since
}

// ImageShare is the share of the log's bytes that is whole pages, at most:
// unused space in a page is left out of its image, and compressed images are
// smaller (then this says nothing). 0…1; 0 if the images are not counted.
func (w WALStat) ImageShare(page int64) float64 {
	if w.Bytes <= 0 {
		return 0
	}
	return min(1, float64(w.Images.Value)*float64(page)/float64(w.Bytes))
}

func because(err error) string {
	if err == nil {
		return "the server gives no value"
	}
	return err.Error()
}
