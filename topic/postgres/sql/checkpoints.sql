select checkpoints_timed::float8 as postgres_checkpoints_timed_total,
       checkpoints_req::float8 as postgres_checkpoints_requested_total,
       checkpoint_write_time / 1000 as postgres_checkpoint_write_seconds_total,
       checkpoint_sync_time / 1000 as postgres_checkpoint_sync_seconds_total,
       buffers_checkpoint::float8 as postgres_checkpoint_buffers_total,
       buffers_clean::float8 as postgres_bgwriter_buffers_total,
       maxwritten_clean::float8 as postgres_bgwriter_stopped_total,
       buffers_alloc::float8 as postgres_buffers_allocated_total,
       buffers_backend::float8 as postgres_backend_buffers_total,
       buffers_backend_fsync::float8 as postgres_backend_fsyncs_total
from pg_catalog.pg_stat_bgwriter
