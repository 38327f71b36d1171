-- Without pg_monitor state and kind of other roles' sessions are NULL: they are
-- counted in the eleventh column. Only clients have both a role and a database.
select pg_catalog.current_setting('max_connections')::bigint,
       pg_catalog.current_setting('superuser_reserved_connections')::bigint,
       count(*) filter (where client),
       count(*) filter (where client and state = 'active'),
       count(*) filter (where client and state = 'idle'),
       count(*) filter (where client and state like 'idle in transaction%'),
       count(*) filter (where client and wait_event_type = 'Lock'),
       coalesce(extract(epoch from max(pg_catalog.clock_timestamp() - xact_start) filter (where client)), 0)::float8,
       coalesce(extract(epoch from max(pg_catalog.clock_timestamp() - state_change) filter (where client and state like 'idle in transaction%')), 0)::float8,
       coalesce(max(pg_catalog.age(backend_xmin)), 0)::bigint,
       count(*) filter (where client and state is null),
       (select count(*) from pg_catalog.pg_prepared_xacts),
       (select coalesce(extract(epoch from max(pg_catalog.clock_timestamp() - prepared)), 0)::float8 from pg_catalog.pg_prepared_xacts)
from (select *, coalesce(backend_type = 'client backend', datid is not null and usesysid is not null) as client from pg_catalog.pg_stat_activity
      where pid <> pg_catalog.pg_backend_pid()) a
