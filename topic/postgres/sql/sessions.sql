-- Who does what now: active ones first, oldest first. Who holds what a session
-- waits for is asked for those 100 only that have waited longest, as it stops
-- all locking for a moment.
select a.pid, coalesce(a.leader_pid, 0), coalesce(a.usename::text, ''), coalesce(a.datname::text, ''), coalesce(a.application_name, ''),
       coalesce(pg_catalog.host(a.client_addr), ''), coalesce(a.backend_type, ''), a.state, a.wait_event_type, a.wait_event,
       case when a.wait_event_type = 'Lock' and a.turn <= 100 then pg_catalog.pg_blocking_pids(a.pid) else '{}' end,
       extract(epoch from pg_catalog.clock_timestamp() - a.backend_start)::float8,
       extract(epoch from pg_catalog.clock_timestamp() - a.xact_start)::float8,
       extract(epoch from pg_catalog.clock_timestamp() - a.query_start)::float8,
       extract(epoch from pg_catalog.clock_timestamp() - a.state_change)::float8,
       pg_catalog.left(a.query, 8192),
       a.query = '<insufficient privilege>'
from (select *, row_number() over (partition by wait_event_type order by query_start, pid) as turn from pg_catalog.pg_stat_activity) a
where a.pid <> pg_catalog.pg_backend_pid()
order by a.state = 'active' desc nulls last, a.xact_start nulls last, a.state_change nulls last, a.pid
limit 500
