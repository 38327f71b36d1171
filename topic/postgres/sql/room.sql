select pg_catalog.current_setting('autovacuum_max_workers')::float8 as postgres_autovacuum_workers_limit
