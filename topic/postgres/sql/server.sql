select extract(epoch from pg_catalog.pg_postmaster_start_time())::float8 as postgres_start_time_seconds,
       extract(epoch from pg_catalog.clock_timestamp() - pg_catalog.pg_postmaster_start_time())::float8 as postgres_uptime_seconds,
       extract(epoch from pg_catalog.pg_conf_load_time())::float8 as postgres_config_load_time_seconds,
       pg_catalog.pg_is_in_recovery()::int::float8 as postgres_in_recovery,
       1::float8 as postgres_version_info,
       pg_catalog.split_part(pg_catalog.current_setting('server_version'), ' ', 1) as version,
       (pg_catalog.current_setting('server_version_num')::int / 10000)::text as major,
       pg_catalog.current_setting('cluster_name') as cluster
