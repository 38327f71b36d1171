-- The 50 statements that took most time, over all databases and roles. Without
-- their texts, which lie in a file that may be large: statement_texts.sql.
-- {schema} and {blk} depend on the extension, which need not be as new as the
-- server: see statements.go.
with s as (
  select queryid, dbid, sum(calls) as calls, sum(total_exec_time) as exec_time, sum(total_plan_time) as plan_time, sum(rows) as rows,
         sum(shared_blks_hit) as hit, sum(shared_blks_read) as read, sum(shared_blks_dirtied) as dirtied, sum(shared_blks_written) as written,
         sum(temp_blks_read) as temp_read, sum(temp_blks_written) as temp_written,
         sum({blk}_read_time) as read_time, sum({blk}_write_time) as write_time, sum(wal_bytes) as wal_bytes
  from {schema}.pg_stat_statements(false)
  where queryid is not null
  group by queryid, dbid
  order by exec_time desc, queryid
  limit 50
)
select coalesce(d.datname::text, '(dropped)') as database, s.queryid::text as queryid,
       sum(s.calls)::float8 as postgres_statement_calls_total,
       sum(s.exec_time)::float8 / 1000 as postgres_statement_seconds_total,
       sum(s.plan_time)::float8 / 1000 as postgres_statement_planning_seconds_total,
       sum(s.rows)::float8 as postgres_statement_rows_total,
       sum(s.hit)::float8 as postgres_statement_blocks_hit_total,
       sum(s.read)::float8 as postgres_statement_blocks_read_total,
       sum(s.dirtied)::float8 as postgres_statement_blocks_dirtied_total,
       sum(s.written)::float8 as postgres_statement_blocks_written_total,
       sum(s.temp_read)::float8 * pg_catalog.current_setting('block_size')::bigint as postgres_statement_temp_read_bytes_total,
       sum(s.temp_written)::float8 * pg_catalog.current_setting('block_size')::bigint as postgres_statement_temp_written_bytes_total,
       sum(s.read_time)::float8 / 1000 as postgres_statement_read_seconds_total,
       sum(s.write_time)::float8 / 1000 as postgres_statement_write_seconds_total,
       sum(s.wal_bytes)::float8 as postgres_statement_wal_bytes_total
from s left join pg_catalog.pg_database d on d.oid = s.dbid
group by 1, 2
