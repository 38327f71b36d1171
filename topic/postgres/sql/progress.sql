-- Names of tables in other databases cannot be seen from here.
select p.datname::text as database,
       case when p.datname = pg_catalog.current_database() then coalesce(n.nspname::text, '') else '' end as schema,
       case when p.datname = pg_catalog.current_database() then coalesce(c.relname::text, p.relid::text) else p.relid::text end as table,
       p.phase,
       max(p.heap_blks_scanned::float8 / nullif(p.heap_blks_total, 0)) as postgres_vacuum_progress_ratio,
       max(extract(epoch from pg_catalog.clock_timestamp() - a.xact_start))::float8 as postgres_vacuum_running_seconds
from pg_catalog.pg_stat_progress_vacuum p
     left join pg_catalog.pg_stat_get_activity(null) a on a.pid = p.pid
     left join pg_catalog.pg_class c on c.oid = p.relid
     left join pg_catalog.pg_namespace n on n.oid = c.relnamespace
group by 1, 2, 3, 4
limit 50
