select pg_catalog.current_setting('max_connections')::float8 as postgres_connections_limit,
       pg_catalog.current_setting('superuser_reserved_connections')::float8
       + coalesce(pg_catalog.current_setting('reserved_connections', true), '0')::float8 as postgres_connections_reserved,
       count(*)::float8 as postgres_connections_used,
       count(*) filter (where wait_event_type = 'Lock')::float8 as postgres_sessions_blocked,
       coalesce(extract(epoch from max(pg_catalog.clock_timestamp() - xact_start)
         filter (where pid <> pg_catalog.pg_backend_pid())), 0)::float8 as postgres_oldest_transaction_seconds,
       coalesce(extract(epoch from max(pg_catalog.clock_timestamp() - query_start)
         filter (where state = 'active' and pid <> pg_catalog.pg_backend_pid())), 0)::float8 as postgres_oldest_statement_seconds,
       coalesce(extract(epoch from max(pg_catalog.clock_timestamp() - state_change)
         filter (where state like 'idle in transaction%')), 0)::float8 as postgres_longest_idle_in_transaction_seconds
from pg_catalog.pg_stat_get_activity(null)
where backend_type = 'client backend'
