-- Since 9.2; times are in ms.
select coalesce(extract(epoch from pg_catalog.clock_timestamp() - coalesce(stats_reset, pg_catalog.pg_postmaster_start_time())), 0)::float8,
       checkpoints_timed, checkpoints_req, checkpoint_write_time / 1000, checkpoint_sync_time / 1000,
       buffers_checkpoint, buffers_clean, buffers_backend
from pg_catalog.pg_stat_bgwriter
