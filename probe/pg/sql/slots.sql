select slot_name::text, slot_type, active,
       pg_catalog.pg_wal_lsn_diff(case when pg_catalog.pg_is_in_recovery() then pg_catalog.pg_last_wal_receive_lsn()
                                       else pg_catalog.pg_current_wal_lsn() end, restart_lsn)::bigint
from pg_catalog.pg_replication_slots
order by 1
