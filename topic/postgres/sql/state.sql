-- What we may see, and what the server counts at all: a figure that it does
-- not count is 0 there, and that would be a lie.
select current_user::text,
       pg_catalog.pg_has_role(current_user, 'pg_read_all_stats', 'USAGE'),
       pg_catalog.has_function_privilege('pg_catalog.pg_ls_waldir()', 'EXECUTE'),
       pg_catalog.pg_is_in_recovery(),
       pg_catalog.current_setting('track_io_timing') = 'on',
       coalesce(pg_catalog.current_setting('track_wal_io_timing', true), 'off') = 'on',
       pg_catalog.current_setting('track_counts') = 'on',
       pg_catalog.current_setting('track_activities') = 'on',
       pg_catalog.current_setting('data_checksums') = 'on',
       coalesce(pg_catalog.current_setting('pg_stat_statements.track_planning', true), 'off') = 'on'
