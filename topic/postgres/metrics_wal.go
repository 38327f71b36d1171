package postgres

const seeIO = `see postgres_io_writes_total and postgres_io_fsyncs_total of backend="client backend"`

var walCollector = collector("postgres.wal", "The write-ahead log: how much, of what, and whether it is archived", 0, true,
	of("wal", "pg_stat_wal", []string{},
		col("postgres_wal_position_bytes_total", "Position in the write-ahead log: written on a primary, replayed on a standby.", "= pg_current_wal_lsn(), pg_last_wal_replay_lsn()"),
		col("postgres_wal_records_total", "Records written.", "wal_records").from(14),
		col("postgres_wal_page_images_total", "Pages logged whole because a checkpoint had come before.", "wal_fpi").from(14),
		col("postgres_wal_bytes_total", "Bytes written.", "wal_bytes").from(14),
		col("postgres_wal_buffers_full_total", "Times that wal_buffers were full and a session had to write.", "wal_buffers_full").from(14),
		col("postgres_wal_writes_total", "Writes of the log to its files.", "wal_write; from 18 on pg_stat_io writes, object wal").from(14),
		col("postgres_wal_syncs_total", "Times that its files were flushed to disk.", "wal_sync; from 18 on pg_stat_io fsyncs, object wal").from(14),
		col("postgres_wal_write_seconds_total", "Time that writes of the log took.", "wal_write_time; from 18 on pg_stat_io write_time, object wal").from(14).wants(needWALTiming),
		col("postgres_wal_sync_seconds_total", "Time that flushes of the log took.", "wal_sync_time; from 18 on pg_stat_io fsync_time, object wal").from(14).wants(needWALTiming)),
	of("archiver", "pg_stat_archiver", []string{},
		col("postgres_archived_files_total", "Files of the log that were archived.", "archived_count"),
		col("postgres_archive_failures_total", "Attempts to archive a file that failed.", "failed_count"),
		col("postgres_archive_age_seconds", "Time since a file was last archived; no point if none ever was.", "last_archived_time"),
		col("postgres_archive_failing", "1 if the last attempt to archive failed, else 0.", "last_failed_time > last_archived_time")))

var walFilesCollector = collector("postgres.wal-files", "The folder of the write-ahead log", listsEvery, false,
	of("walfiles", "pg_ls_waldir()", []string{},
		col("postgres_wal_files", "Files in the folder of the write-ahead log, those kept for reuse included.", "rows"),
		col("postgres_wal_files_bytes", "Their size.", "size"),
		col("postgres_archive_waiting_files", "Files that wait to be archived; no point with archive_mode off.", "= pg_ls_archive_statusdir(), names in .ready"),
	).all(needFolder))

var checkpointsCollector = collector("postgres.checkpoints", "Checkpoints and the background writer", 0, false,
	of("checkpoints", "pg_stat_bgwriter, from 17 on pg_stat_checkpointer:", []string{},
		col("postgres_checkpoints_timed_total", "Checkpoints begun because checkpoint_timeout was over.", "checkpoints_timed, num_timed"),
		col("postgres_checkpoints_requested_total", "Checkpoints begun because the log was full or something asked for one.", "checkpoints_req, num_requested"),
		col("postgres_checkpoints_done_total", "Checkpoints completed, those skipped for lack of work left out.", "num_done").from(18),
		col("postgres_checkpoint_write_seconds_total", "Time that checkpoints spent writing.", "checkpoint_write_time, write_time"),
		col("postgres_checkpoint_sync_seconds_total", "Time that checkpoints spent flushing files.", "checkpoint_sync_time, sync_time"),
		col("postgres_checkpoint_buffers_total", "Blocks written by checkpoints.", "buffers_checkpoint, buffers_written"),
		col("postgres_checkpoint_slru_buffers_total", "Blocks of SLRU caches written by checkpoints.", "slru_written").from(18),
		col("postgres_restartpoints_timed_total", "Restartpoints of a standby, begun by time.", "restartpoints_timed").from(17),
		col("postgres_restartpoints_requested_total", "Restartpoints of a standby, begun by request.", "restartpoints_req").from(17),
		col("postgres_restartpoints_done_total", "Restartpoints of a standby, completed.", "restartpoints_done").from(17),
		col("postgres_bgwriter_buffers_total", "Blocks written by the background writer.", "= pg_stat_bgwriter buffers_clean"),
		col("postgres_bgwriter_stopped_total", "Times that the background writer stopped because it had written bgwriter_lru_maxpages.", "= pg_stat_bgwriter maxwritten_clean"),
		col("postgres_buffers_allocated_total", "Blocks of shared_buffers given out.", "= pg_stat_bgwriter buffers_alloc"),
		col("postgres_backend_buffers_total", "Blocks that sessions had to write themselves.", "= pg_stat_bgwriter buffers_backend").till(16, seeIO),
		col("postgres_backend_fsyncs_total", "Times that sessions had to flush files themselves.", "= pg_stat_bgwriter buffers_backend_fsync").till(16, seeIO)),
	of("control", "pg_control_checkpoint()", []string{},
		col("postgres_checkpoint_age_seconds", "Time since the last completed checkpoint began.", "checkpoint_time"),
		col("postgres_checkpoint_distance_bytes", "Write-ahead log since then, which a crash would have to replay; none on a standby.", "pg_current_wal_lsn() - redo_lsn")))

var ioCollector = collector("postgres.io", "Reads and writes of data files by kind of process", 0, false,
	of("io", "pg_stat_io (16 and newer)", []string{"backend"}, append([]column{
		col("postgres_io_reads_total", "Reads.", "reads"),
		col("postgres_io_read_bytes_total", "Bytes read.", "reads × op_bytes, from 18 on read_bytes"),
		col("postgres_io_writes_total", "Writes.", "writes"),
		col("postgres_io_write_bytes_total", "Bytes written.", "writes × op_bytes, from 18 on write_bytes"),
		col("postgres_io_extends_total", "Times that files were made longer.", "extends"),
		col("postgres_io_extend_bytes_total", "Bytes by which files were made longer.", "extends × op_bytes, from 18 on extend_bytes"),
		col("postgres_io_fsyncs_total", "Flushes of files to disk.", "fsyncs"),
		col("postgres_io_hits_total", "Blocks found in memory.", "hits"),
		col("postgres_io_evictions_total", "Blocks put out of memory to make room.", "evictions"),
		col("postgres_io_reuses_total", "Blocks of a ring buffer used again.", "reuses"),
	}, timed(
		col("postgres_io_read_seconds_total", "Time that reads took.", "read_time"),
		col("postgres_io_write_seconds_total", "Time that writes took.", "write_time + writeback_time"),
		col("postgres_io_extend_seconds_total", "Time that making files longer took.", "extend_time"),
		col("postgres_io_fsync_seconds_total", "Time that flushes took.", "fsync_time"))...)...))

func timed(columns ...column) []column {
	for i := range columns {
		columns[i] = columns[i].wants(needIOTiming)
	}
	return columns
}

var slruCollector = collector("postgres.slru", "The small caches of transaction states, multixacts, notifications", listsEvery, false,
	of("slru", "pg_stat_slru", []string{"slru"},
		col("postgres_slru_blocks_hit_total", "Blocks found in the cache.", "blks_hit"),
		col("postgres_slru_blocks_read_total", "Blocks read from disk.", "blks_read"),
		col("postgres_slru_blocks_written_total", "Blocks written.", "blks_written"),
		col("postgres_slru_flushes_total", "Flushes of the cache's dirty blocks.", "flushes")))
