select pg_catalog.pg_wal_lsn_diff(case when pg_catalog.pg_is_in_recovery() then pg_catalog.pg_last_wal_replay_lsn()
                                       else pg_catalog.pg_current_wal_lsn() end, '0/0')::float8 as postgres_wal_position_bytes_total,
       wal_records::float8 as postgres_wal_records_total,
       wal_fpi::float8 as postgres_wal_page_images_total,
       wal_bytes::float8 as postgres_wal_bytes_total,
       wal_buffers_full::float8 as postgres_wal_buffers_full_total,
       wal_write::float8 as postgres_wal_writes_total,
       wal_sync::float8 as postgres_wal_syncs_total,
       wal_write_time / 1000 as postgres_wal_write_seconds_total,
       wal_sync_time / 1000 as postgres_wal_sync_seconds_total
from pg_catalog.pg_stat_wal
