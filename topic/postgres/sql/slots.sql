select s.slot_name::text as slot, s.slot_type as kind, coalesce(s.wal_status, 'unused') as status,
       1::float8 as postgres_slot_info,
       s.active::int::float8 as postgres_slot_active,
       (coalesce(s.wal_status, '') = 'lost')::int::float8 as postgres_slot_lost,
       pg_catalog.pg_wal_lsn_diff(case when pg_catalog.pg_is_in_recovery() then pg_catalog.pg_last_wal_receive_lsn()
                                       else pg_catalog.pg_current_wal_lsn() end, s.restart_lsn)::float8 as postgres_slot_retained_bytes,
       s.safe_wal_size::float8 as postgres_slot_room_bytes
from pg_catalog.pg_get_replication_slots() s
order by s.slot_name
limit 100
