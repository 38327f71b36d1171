select d.datname::text, pg_catalog.age(d.datfrozenxid)::bigint,
       extract(epoch from pg_catalog.clock_timestamp() - s.stats_reset)::float8,
       coalesce(s.xact_commit, 0), coalesce(s.xact_rollback, 0), coalesce(s.blks_read, 0), coalesce(s.blks_hit, 0),
       coalesce(s.temp_files, 0), coalesce(s.temp_bytes, 0), coalesce(s.deadlocks, 0)
from pg_catalog.pg_database d left join pg_catalog.pg_stat_database s on s.datid = d.oid
order by s.xact_commit desc nulls last, d.oid
limit 200
