-- The 50 tables of this database that matter most, taken in turn: largest, most
-- dead rows, most written, oldest. The system's own only where they are large.
-- Sizes look at the files, which waits for an exclusive lock: a table that is
-- locked so has the size that the last vacuum or analyze saw.
with t as materialized (
  select c.oid, n.nspname, c.relname, c.relpages, c.reltoastrelid,
         pg_catalog.pg_stat_get_dead_tuples(c.oid) as dead,
         pg_catalog.pg_stat_get_tuples_inserted(c.oid) + pg_catalog.pg_stat_get_tuples_updated(c.oid)
           + pg_catalog.pg_stat_get_tuples_deleted(c.oid) as written,
         case when c.relfrozenxid <> '0' then pg_catalog.age(c.relfrozenxid) else 0 end as age
  from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
  where c.relkind in ('r', 'm') and c.relpersistence <> 't'
    and (n.nspname not in ('pg_catalog', 'information_schema') or c.relpages > 1000)
), first as materialized (
  select t.*, least(row_number() over (order by relpages desc, oid), row_number() over (order by dead desc, oid),
                    row_number() over (order by written desc, oid), row_number() over (order by age desc, oid)) as turn
  from t
  order by turn, relpages desc, oid
  limit 50
), locked as materialized (
  select relation from pg_catalog.pg_locks
  where mode = 'AccessExclusiveLock' and relation is not null
    and database = (select oid from pg_catalog.pg_database where datname = pg_catalog.current_database())
), x as materialized (
  select f.*, f.oid in (select relation from locked) or f.reltoastrelid in (select relation from locked)
              or exists (select from pg_catalog.pg_index i where i.indrelid in (f.oid, f.reltoastrelid)
                           and i.indexrelid in (select relation from locked)) as shut,
         (select sum(pg_catalog.pg_stat_get_numscans(i.indexrelid)) from pg_catalog.pg_index i where i.indrelid = f.oid) as index_scans,
         (select sum(pg_catalog.pg_stat_get_tuples_fetched(i.indexrelid)) from pg_catalog.pg_index i where i.indrelid = f.oid) as index_rows
  from first f
)
select pg_catalog.current_database()::text as database, nspname::text as schema, relname::text as table,
       case when shut then relpages * pg_catalog.current_setting('block_size')::float8
            else pg_catalog.pg_table_size(oid) end::float8 as postgres_table_bytes,
       case when not shut then pg_catalog.pg_indexes_size(oid) end::float8 as postgres_table_indexes_bytes,
       pg_catalog.pg_stat_get_live_tuples(oid)::float8 as postgres_table_live_rows,
       dead::float8 as postgres_table_dead_rows,
       pg_catalog.pg_stat_get_mod_since_analyze(oid)::float8 as postgres_table_changed_rows,
       pg_catalog.pg_stat_get_numscans(oid)::float8 as postgres_table_sequential_scans_total,
       pg_catalog.pg_stat_get_tuples_returned(oid)::float8 as postgres_table_sequential_rows_total,
       coalesce(index_scans, 0)::float8 as postgres_table_index_scans_total,
       (coalesce(index_rows, 0) + pg_catalog.pg_stat_get_tuples_fetched(oid))::float8 as postgres_table_index_rows_total,
       pg_catalog.pg_stat_get_tuples_inserted(oid)::float8 as postgres_table_inserted_rows_total,
       pg_catalog.pg_stat_get_tuples_updated(oid)::float8 as postgres_table_updated_rows_total,
       pg_catalog.pg_stat_get_tuples_hot_updated(oid)::float8 as postgres_table_hot_updated_rows_total,
       pg_catalog.pg_stat_get_tuples_deleted(oid)::float8 as postgres_table_deleted_rows_total,
       (pg_catalog.pg_stat_get_blocks_fetched(oid) - pg_catalog.pg_stat_get_blocks_hit(oid))::float8 as postgres_table_blocks_read_total,
       pg_catalog.pg_stat_get_blocks_hit(oid)::float8 as postgres_table_blocks_hit_total,
       (pg_catalog.pg_stat_get_vacuum_count(oid) + pg_catalog.pg_stat_get_autovacuum_count(oid))::float8 as postgres_table_vacuums_total,
       (pg_catalog.pg_stat_get_analyze_count(oid) + pg_catalog.pg_stat_get_autoanalyze_count(oid))::float8 as postgres_table_analyzes_total,
       extract(epoch from pg_catalog.clock_timestamp() - greatest(pg_catalog.pg_stat_get_last_vacuum_time(oid),
         pg_catalog.pg_stat_get_last_autovacuum_time(oid)))::float8 as postgres_table_vacuum_age_seconds,
       extract(epoch from pg_catalog.clock_timestamp() - greatest(pg_catalog.pg_stat_get_last_analyze_time(oid),
         pg_catalog.pg_stat_get_last_autoanalyze_time(oid)))::float8 as postgres_table_analyze_age_seconds,
       age::float8 as postgres_table_xid_age
from x
