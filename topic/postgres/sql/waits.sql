-- Who works and waits for nothing that PostgreSQL can name is on a CPU, or
-- waits for one.
select coalesce(k.wait, a.wait) as wait, coalesce(a.n, 0)::float8 as postgres_active_sessions
from (values ('CPU'), ('BufferPin'), ('Client'), ('Extension'), ('IO'), ('IPC'), ('Lock'), ('LWLock'), ('Timeout')) k (wait)
     full join (select coalesce(wait_event_type, 'CPU') as wait, count(*) as n
                from pg_catalog.pg_stat_get_activity(null)
                where state = 'active' and backend_type in ('client backend', 'parallel worker') and pid <> pg_catalog.pg_backend_pid()
                group by 1) a on a.wait = k.wait
