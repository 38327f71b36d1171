select pg_catalog.current_setting('server_version_num')::pg_catalog.int4,
       pg_catalog.pg_is_in_recovery(),
       pg_catalog.current_setting('transaction_read_only')::pg_catalog.bool,
       pg_catalog.current_setting('wal_level'),
       pg_catalog.pg_size_bytes(pg_catalog.current_setting('shared_buffers')),
       pg_catalog.pg_size_bytes(pg_catalog.current_setting('maintenance_work_mem')),
       pg_catalog.current_setting('max_parallel_workers')::pg_catalog.int4,
       pg_catalog.current_setting('max_connections')::pg_catalog.int4 - pg_catalog.current_setting('superuser_reserved_connections')::pg_catalog.int4
         - (select pg_catalog.count(*)::pg_catalog.int4 from pg_catalog.pg_stat_activity where backend_type = 'client backend'),
       pg_catalog.current_setting('server_encoding'),
       coalesce((select setting from pg_catalog.pg_settings where name = 'data_directory'), ''),
       pg_catalog.pg_backend_pid()
