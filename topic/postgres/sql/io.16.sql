-- Kinds of process that did nothing yet are left out.
select backend_type as backend,
       sum(reads)::float8 as postgres_io_reads_total,
       sum(reads * op_bytes)::float8 as postgres_io_read_bytes_total,
       sum(writes)::float8 as postgres_io_writes_total,
       sum(writes * op_bytes)::float8 as postgres_io_write_bytes_total,
       sum(extends)::float8 as postgres_io_extends_total,
       sum(extends * op_bytes)::float8 as postgres_io_extend_bytes_total,
       sum(fsyncs)::float8 as postgres_io_fsyncs_total,
       sum(hits)::float8 as postgres_io_hits_total,
       sum(evictions)::float8 as postgres_io_evictions_total,
       sum(reuses)::float8 as postgres_io_reuses_total,
       sum(read_time)::float8 / 1000 as postgres_io_read_seconds_total,
       (sum(write_time) + coalesce(sum(writeback_time), 0))::float8 / 1000 as postgres_io_write_seconds_total,
       sum(extend_time)::float8 / 1000 as postgres_io_extend_seconds_total,
       sum(fsync_time)::float8 / 1000 as postgres_io_fsync_seconds_total
from pg_catalog.pg_stat_io
group by backend_type
having sum(coalesce(reads, 0) + coalesce(writes, 0) + coalesce(extends, 0) + coalesce(fsyncs, 0) + coalesce(hits, 0)) > 0
