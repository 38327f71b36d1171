-- The server's values: reset_val, which our session's own limits do not change.
-- What our role, database or connection was given is left out.
-- Units such as 8kB and min are brought to bytes and seconds.
with s as (
  select name, reset_val, vartype, case when unit like '%B' then 'bytes' when unit in ('us', 'ms', 's', 'min', 'h', 'd') then 'seconds' else 'count' end as base,
         coalesce(nullif(pg_catalog.substring(unit, '^[0-9]+'), ''), '1')::float8
         * case pg_catalog.regexp_replace(unit, '^[0-9]+', '') when 'kB' then 1024 when 'MB' then 1048576 when 'us' then 1e-6 when 'ms' then 1e-3
                when 'min' then 60 when 'h' then 3600 when 'd' then 86400 else 1 end as factor
  from pg_catalog.pg_settings
  where name in ('shared_buffers', 'work_mem', 'maintenance_work_mem', 'autovacuum_work_mem', 'effective_cache_size', 'wal_buffers', 'temp_buffers',
                 'max_wal_size', 'min_wal_size', 'wal_keep_size', 'max_slot_wal_keep_size', 'wal_segment_size', 'block_size',
                 'checkpoint_timeout', 'checkpoint_completion_target', 'max_connections', 'superuser_reserved_connections',
                 'max_worker_processes', 'max_parallel_workers', 'max_parallel_workers_per_gather', 'max_wal_senders',
                 'max_replication_slots', 'max_prepared_transactions', 'max_locks_per_transaction', 'deadlock_timeout',
                 'idle_in_transaction_session_timeout', 'autovacuum_max_workers',
                 'autovacuum_freeze_max_age', 'autovacuum_multixact_freeze_max_age', 'autovacuum_naptime', 'autovacuum_vacuum_cost_limit',
                 'autovacuum_vacuum_cost_delay', 'autovacuum_vacuum_scale_factor', 'random_page_cost', 'seq_page_cost',
                 'effective_io_concurrency', 'default_statistics_target', 'bgwriter_delay', 'bgwriter_lru_maxpages',
                 'fsync', 'full_page_writes', 'synchronous_commit', 'wal_level', 'wal_compression', 'archive_mode', 'hot_standby',
                 'autovacuum', 'jit', 'track_io_timing', 'track_wal_io_timing', 'track_activities', 'track_counts', 'data_checksums',
                 'huge_pages', 'huge_pages_status', 'io_method', 'wal_sync_method', 'password_encryption', 'ssl', 'default_toast_compression')
    and source not in ('database', 'user', 'database user', 'client')
)
select name as setting, reset_val as value,
       case when base = 'bytes' and vartype in ('integer', 'real') then case when reset_val::float8 < 0 then reset_val::float8 else reset_val::float8 * factor end end as postgres_setting_bytes,
       case when base = 'seconds' and vartype in ('integer', 'real') then case when reset_val::float8 < 0 then reset_val::float8 else reset_val::float8 * factor end end as postgres_setting_seconds,
       case when base = 'count' and vartype in ('integer', 'real') then reset_val::float8 end as postgres_setting,
       case when vartype not in ('integer', 'real') then 1::float8 end as postgres_setting_info
from s
