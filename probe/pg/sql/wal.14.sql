select coalesce(extract(epoch from pg_catalog.clock_timestamp() - coalesce(stats_reset, pg_catalog.pg_postmaster_start_time())), 0)::float8,
       wal_records, wal_fpi, wal_bytes::bigint, wal_buffers_full
from pg_catalog.pg_stat_wal
