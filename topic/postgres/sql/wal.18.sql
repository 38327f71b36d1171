-- 18 moved writes and syncs to pg_stat_io.
select pg_catalog.pg_wal_lsn_diff(case when pg_catalog.pg_is_in_recovery() then pg_catalog.pg_last_wal_replay_lsn()
                                       else pg_catalog.pg_current_wal_lsn() end, '0/0')::float8 as postgres_wal_position_bytes_total,
       w.wal_records::float8 as postgres_wal_records_total,
       w.wal_fpi::float8 as postgres_wal_page_images_total,
       w.wal_bytes::float8 as postgres_wal_bytes_total,
       w.wal_buffers_full::float8 as postgres_wal_buffers_full_total,
       i.writes::float8 as postgres_wal_writes_total,
       i.syncs::float8 as postgres_wal_syncs_total,
       i.write_time / 1000 as postgres_wal_write_seconds_total,
       i.sync_time / 1000 as postgres_wal_sync_seconds_total
from pg_catalog.pg_stat_wal w,
     (select sum(writes) as writes, sum(fsyncs) as syncs, sum(write_time) as write_time, sum(fsync_time) as sync_time
      from pg_catalog.pg_stat_io where object = 'wal') i
