-- The 50 indexes of this database that matter most, taken in turn: largest,
-- and largest of those never scanned that serve no constraint.
with i as materialized (
  select c.oid, x.indrelid, n.nspname, c.relname, c.relpages,
         pg_catalog.pg_stat_get_numscans(c.oid) as scans, x.indisunique or x.indisexclusion as guard
  from pg_catalog.pg_index x join pg_catalog.pg_class c on c.oid = x.indexrelid
       join pg_catalog.pg_namespace n on n.oid = c.relnamespace
  where c.relkind = 'i' and c.relpersistence <> 't' and n.nspname not in ('pg_catalog', 'information_schema', 'pg_toast')
), first as materialized (
  select i.*, least(row_number() over (order by relpages desc, oid),
                    row_number() over (order by scans = 0 and not guard desc, relpages desc, oid)) as turn
  from i
  order by turn, relpages desc, oid
  limit 50
), locked as materialized (
  select relation from pg_catalog.pg_locks
  where mode = 'AccessExclusiveLock' and relation is not null
    and database = (select oid from pg_catalog.pg_database where datname = pg_catalog.current_database())
)
select pg_catalog.current_database()::text as database, f.nspname::text as schema, t.relname::text as table, f.relname::text as index,
       case when f.oid in (select relation from locked) then f.relpages * pg_catalog.current_setting('block_size')::float8
            else pg_catalog.pg_relation_size(f.oid) end::float8 as postgres_index_bytes,
       f.scans::float8 as postgres_index_scans_total,
       pg_catalog.pg_stat_get_tuples_returned(f.oid)::float8 as postgres_index_rows_total,
       (pg_catalog.pg_stat_get_blocks_fetched(f.oid) - pg_catalog.pg_stat_get_blocks_hit(f.oid))::float8 as postgres_index_blocks_read_total,
       pg_catalog.pg_stat_get_blocks_hit(f.oid)::float8 as postgres_index_blocks_hit_total
from first f join pg_catalog.pg_class t on t.oid = f.indrelid
