-- The last completed checkpoint. A standby has no write position of its own.
select extract(epoch from pg_catalog.clock_timestamp() - checkpoint_time)::float8,
       case when not pg_catalog.pg_is_in_recovery()
            then pg_catalog.pg_wal_lsn_diff(pg_catalog.pg_current_wal_lsn(), redo_lsn)::bigint end
from pg_catalog.pg_control_checkpoint()
