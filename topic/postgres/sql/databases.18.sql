-- The 50 oldest databases each, the rest as one: sums stay whole and labels few.
-- Shared catalogues have a row without a name.
with d as (
  select s.*, case when s.datid = 0 then '(shared)'
                   when row_number() over (order by s.datid) <= 51 then s.datname::text
                   else '(others)' end as database
  from pg_catalog.pg_stat_database s
  where s.datname is distinct from 'template0'
)
select database,
       sum(numbackends)::float8 as postgres_database_connections,
       sum(xact_commit)::float8 as postgres_database_commits_total,
       sum(xact_rollback)::float8 as postgres_database_rollbacks_total,
       sum(blks_read)::float8 as postgres_database_blocks_read_total,
       sum(blks_hit)::float8 as postgres_database_blocks_hit_total,
       sum(tup_returned)::float8 as postgres_database_rows_returned_total,
       sum(tup_fetched)::float8 as postgres_database_rows_fetched_total,
       sum(tup_inserted)::float8 as postgres_database_rows_inserted_total,
       sum(tup_updated)::float8 as postgres_database_rows_updated_total,
       sum(tup_deleted)::float8 as postgres_database_rows_deleted_total,
       sum(conflicts)::float8 as postgres_database_conflicts_total,
       sum(temp_files)::float8 as postgres_database_temp_files_total,
       sum(temp_bytes)::float8 as postgres_database_temp_bytes_total,
       sum(deadlocks)::float8 as postgres_database_deadlocks_total,
       sum(checksum_failures)::float8 as postgres_database_checksum_failures_total,
       sum(blk_read_time)::float8 / 1000 as postgres_database_read_seconds_total,
       sum(blk_write_time)::float8 / 1000 as postgres_database_write_seconds_total,
       sum(sessions)::float8 as postgres_database_sessions_total,
       sum(sessions_abandoned)::float8 as postgres_database_sessions_abandoned_total,
       sum(sessions_fatal)::float8 as postgres_database_sessions_fatal_total,
       sum(sessions_killed)::float8 as postgres_database_sessions_killed_total,
       sum(session_time)::float8 / 1000 as postgres_database_session_seconds_total,
       sum(active_time)::float8 / 1000 as postgres_database_active_seconds_total,
       sum(idle_in_transaction_time)::float8 / 1000 as postgres_database_idle_in_transaction_seconds_total,
       sum(parallel_workers_to_launch)::float8 as postgres_database_parallel_workers_wanted_total,
       sum(parallel_workers_launched)::float8 as postgres_database_parallel_workers_launched_total
from d
group by database
