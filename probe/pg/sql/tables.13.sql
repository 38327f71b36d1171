-- The tables (and materialised views and TOAST tables are vacuumed with them)
-- of this database that matter most to vacuum: most dead rows, largest,
-- oldest. Only statistics in memory and pg_class are read: no file is looked
-- at and no lock taken.
with t as materialized (
  select c.oid, n.nspname, c.relname, c.relpages, c.reltuples, c.reloptions,
         pg_catalog.pg_stat_get_dead_tuples(c.oid) as dead,
         case when c.relfrozenxid <> '0' then pg_catalog.age(c.relfrozenxid) else 0 end as age
  from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
  where c.relkind in ('r', 'm') and c.relpersistence <> 't'
), r as (
  select t.*, count(*) over () as n, sum(relpages) over () as pages, sum(dead) over () as all_dead,
         row_number() over (order by dead desc, oid) as by_dead,
         row_number() over (order by relpages desc, oid) as by_size,
         row_number() over (order by age desc, oid) as by_age
  from t
)
select n, pages::bigint, all_dead::bigint, nspname::text, relname::text, relpages::bigint, reltuples::float8,
       pg_catalog.pg_stat_get_live_tuples(oid), dead, pg_catalog.pg_stat_get_mod_since_analyze(oid),
       pg_catalog.pg_stat_get_ins_since_vacuum(oid),
       extract(epoch from pg_catalog.clock_timestamp() - pg_catalog.pg_stat_get_last_vacuum_time(oid))::float8,
       extract(epoch from pg_catalog.clock_timestamp() - pg_catalog.pg_stat_get_last_autovacuum_time(oid))::float8,
       extract(epoch from pg_catalog.clock_timestamp() - greatest(pg_catalog.pg_stat_get_last_analyze_time(oid), pg_catalog.pg_stat_get_last_autoanalyze_time(oid)))::float8,
       age::bigint, reloptions
from r
where by_dead <= 90 or by_size <= 90 or by_age <= 20
order by dead desc, relpages desc, oid
