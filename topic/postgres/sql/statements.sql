-- The 50 statements that took most time, over all databases and roles, and how
-- many there are, in a row without labels. Without their texts, which lie in a
-- file that may be large: statement_texts.sql. Sums as double precision, as
-- those of bigint are numeric and slow. {schema} and {blk} depend on the
-- extension, which need not be as new as the server: see metrics_statements.go.
with s as materialized (
  select * from {schema}.pg_stat_statements(false)
), first as (
  select queryid, dbid, sum(total_exec_time) as exec_time
  from s
  where queryid is not null
  group by queryid, dbid
  order by exec_time desc, queryid
  limit 50
)
select coalesce(d.datname::text, '(dropped)') as database, s.queryid::text as queryid,
       sum(s.calls::float8) as postgres_statement_calls_total,
       sum(s.total_exec_time) / 1000 as postgres_statement_seconds_total,
       sum(s.total_plan_time) / 1000 as postgres_statement_planning_seconds_total,
       sum(s.rows::float8) as postgres_statement_rows_total,
       sum(s.shared_blks_hit::float8) as postgres_statement_blocks_hit_total,
       sum(s.shared_blks_read::float8) as postgres_statement_blocks_read_total,
       sum(s.shared_blks_dirtied::float8) as postgres_statement_blocks_dirtied_total,
       sum(s.shared_blks_written::float8) as postgres_statement_blocks_written_total,
       sum(s.temp_blks_read::float8) * pg_catalog.current_setting('block_size')::float8 as postgres_statement_temp_read_bytes_total,
       sum(s.temp_blks_written::float8) * pg_catalog.current_setting('block_size')::float8 as postgres_statement_temp_written_bytes_total,
       sum(s.{blk}_read_time) / 1000 as postgres_statement_read_seconds_total,
       sum(s.{blk}_write_time) / 1000 as postgres_statement_write_seconds_total,
       sum(s.wal_bytes::float8) as postgres_statement_wal_bytes_total,
       null::float8 as postgres_statements, null::float8 as postgres_statements_limit
from first f join s on s.queryid = f.queryid and s.dbid = f.dbid
     left join pg_catalog.pg_database d on d.oid = s.dbid
group by 1, 2
union all
select null, null, null, null, null, null, null, null, null, null, null, null, null, null, null,
       count(*)::float8, pg_catalog.current_setting('pg_stat_statements.max')::float8
from s
