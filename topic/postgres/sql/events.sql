select wait_event_type as type, wait_event as event, count(*)::float8 as postgres_wait_sessions
from pg_catalog.pg_stat_get_activity(null)
where state = 'active' and wait_event is not null and backend_type in ('client backend', 'parallel worker')
  and pid <> pg_catalog.pg_backend_pid()
group by 1, 2
order by 3 desc, 1, 2
limit 30
