-- In which schema the extension lies, and whether its module is loaded.
select (select n.nspname::text from pg_catalog.pg_extension e join pg_catalog.pg_namespace n on n.oid = e.extnamespace
        where e.extname = 'pg_stat_statements'),
       (select extversion::text from pg_catalog.pg_extension where extname = 'pg_stat_statements'),
       pg_catalog.current_setting('pg_stat_statements.max', true) is not null
