select pg_catalog.current_database()::text as database,
       count(*) filter (where unused)::float8 as postgres_indexes_unused,
       (coalesce(sum(relpages) filter (where unused), 0) * pg_catalog.current_setting('block_size')::bigint)::float8 as postgres_indexes_unused_bytes,
       count(*) filter (where not indisvalid)::float8 as postgres_indexes_invalid
from (select c.relpages, x.indisvalid,
             pg_catalog.pg_stat_get_numscans(c.oid) = 0 and not x.indisunique and not x.indisexclusion as unused
      from pg_catalog.pg_index x join pg_catalog.pg_class c on c.oid = x.indexrelid
           join pg_catalog.pg_namespace n on n.oid = c.relnamespace
      where c.relkind = 'i' and n.nspname not in ('pg_catalog', 'information_schema', 'pg_toast')) i
