-- Segments are 24 hexadecimal digits; beside them lie backup labels and
-- histories. A segment that waits to be archived has a file NAME.ready.
select count(*)::float8 as postgres_wal_files, coalesce(sum(size), 0)::float8 as postgres_wal_files_bytes,
       case when pg_catalog.current_setting('archive_mode') <> 'off'
            then (select count(*) from pg_catalog.pg_ls_archive_statusdir() where name like '%.ready')::float8
       end as postgres_archive_waiting_files
from pg_catalog.pg_ls_waldir()
where name ~ '^[0-9A-F]{24}$'
