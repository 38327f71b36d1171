select c.num_timed::float8 as postgres_checkpoints_timed_total,
       c.num_requested::float8 as postgres_checkpoints_requested_total,
       c.write_time / 1000 as postgres_checkpoint_write_seconds_total,
       c.sync_time / 1000 as postgres_checkpoint_sync_seconds_total,
       c.buffers_written::float8 as postgres_checkpoint_buffers_total,
       c.restartpoints_timed::float8 as postgres_restartpoints_timed_total,
       c.restartpoints_req::float8 as postgres_restartpoints_requested_total,
       c.restartpoints_done::float8 as postgres_restartpoints_done_total,
       b.buffers_clean::float8 as postgres_bgwriter_buffers_total,
       b.maxwritten_clean::float8 as postgres_bgwriter_stopped_total,
       b.buffers_alloc::float8 as postgres_buffers_allocated_total,
       c.num_done::float8 as postgres_checkpoints_done_total,
       c.slru_written::float8 as postgres_checkpoint_slru_buffers_total
from pg_catalog.pg_stat_checkpointer c, pg_catalog.pg_stat_bgwriter b
