select extract(epoch from pg_catalog.clock_timestamp() - checkpoint_time)::float8 as postgres_checkpoint_age_seconds,
       case when not pg_catalog.pg_is_in_recovery()
            then pg_catalog.pg_wal_lsn_diff(pg_catalog.pg_current_wal_lsn(), redo_lsn)::float8 end as postgres_checkpoint_distance_bytes
from pg_catalog.pg_control_checkpoint()
