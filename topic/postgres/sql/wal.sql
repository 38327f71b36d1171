select pg_catalog.pg_wal_lsn_diff(case when pg_catalog.pg_is_in_recovery() then pg_catalog.pg_last_wal_replay_lsn()
                                       else pg_catalog.pg_current_wal_lsn() end, '0/0')::float8 as postgres_wal_position_bytes_total
