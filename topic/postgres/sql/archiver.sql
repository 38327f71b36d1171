select archived_count::float8 as postgres_archived_files_total,
       failed_count::float8 as postgres_archive_failures_total,
       extract(epoch from pg_catalog.clock_timestamp() - last_archived_time)::float8 as postgres_archive_age_seconds,
       (last_failed_time is not null and last_failed_time > coalesce(last_archived_time, '-infinity'))::int::float8 as postgres_archive_failing
from pg_catalog.pg_stat_archiver
