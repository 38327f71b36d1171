select k.kind, count(p.pid)::float8 as postgres_vacuum_workers
from (values ('autovacuum'), ('manual')) k (kind)
     left join (select pid, case when backend_type = 'autovacuum worker' then 'autovacuum' else 'manual' end as kind
                from pg_catalog.pg_stat_get_activity(null)
                where backend_type = 'autovacuum worker'
                   or pid in (select pid from pg_catalog.pg_stat_get_progress_info('VACUUM'))) p on p.kind = k.kind
group by k.kind
