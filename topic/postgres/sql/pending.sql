select count(*) filter (where pending_restart)::float8 as postgres_settings_pending_restart from pg_catalog.pg_settings
