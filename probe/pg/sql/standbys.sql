-- A standby that feeds others has a receive position and no write position.
select coalesce(application_name, ''), state, sync_state,
       pg_catalog.pg_wal_lsn_diff(case when pg_catalog.pg_is_in_recovery() then pg_catalog.pg_last_wal_receive_lsn()
                                       else pg_catalog.pg_current_wal_lsn() end, replay_lsn)::bigint
from pg_catalog.pg_stat_replication
order by 1
