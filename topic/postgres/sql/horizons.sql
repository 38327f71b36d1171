select k.holder, coalesce(max(pg_catalog.age(h.xmin)), 0)::float8 as postgres_xmin_age
from (values ('session'), ('prepared transaction'), ('replication slot'), ('standby')) k (holder)
     left join (select 'session' as holder, backend_xmin as xmin from pg_catalog.pg_stat_get_activity(null)
                where backend_type = 'client backend' and pid <> pg_catalog.pg_backend_pid()
                union all select 'prepared transaction', transaction from pg_catalog.pg_prepared_xact()
                union all select 'replication slot', xmin from pg_catalog.pg_get_replication_slots()
                union all select 'replication slot', catalog_xmin from pg_catalog.pg_get_replication_slots()
                union all select 'standby', backend_xmin from pg_catalog.pg_stat_get_activity(null) where backend_type = 'walsender') h on h.holder = k.holder
group by k.holder
