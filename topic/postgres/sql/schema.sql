select pg_catalog.current_database()::text as database,
       count(*) filter (where relkind = 'r')::float8 as postgres_tables,
       count(*) filter (where relkind = 'i')::float8 as postgres_indexes,
       (coalesce(sum(relpages), 0) * pg_catalog.current_setting('block_size')::bigint)::float8 as postgres_relations_estimated_bytes,
       coalesce(max(case when relfrozenxid <> '0' then pg_catalog.age(relfrozenxid) end), 0)::float8 as postgres_relations_oldest_xid_age
from pg_catalog.pg_class
where relkind in ('r', 'm', 't', 'i')
