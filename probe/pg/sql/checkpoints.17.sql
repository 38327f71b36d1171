-- 17 moved checkpoints into a view of their own and dropped buffers_backend.
select coalesce(extract(epoch from pg_catalog.clock_timestamp() - coalesce(c.stats_reset, pg_catalog.pg_postmaster_start_time())), 0)::float8,
       c.num_timed, c.num_requested, c.write_time / 1000, c.sync_time / 1000,
       c.buffers_written, b.buffers_clean, null::bigint
from pg_catalog.pg_stat_checkpointer c, pg_catalog.pg_stat_bgwriter b
