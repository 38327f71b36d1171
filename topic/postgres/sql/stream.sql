select coalesce(s.streaming, 0)::float8 as postgres_receiver_streaming, s.behind as postgres_receive_lag_bytes,
       s.silent as postgres_receiver_silent_seconds
from (select pg_catalog.pg_is_in_recovery() as standby) r
     left join (select (status = 'streaming')::int as streaming,
                       pg_catalog.pg_wal_lsn_diff(latest_end_lsn, flushed_lsn)::float8 as behind,
                       extract(epoch from pg_catalog.clock_timestamp() - last_msg_receipt_time)::float8 as silent
                from pg_catalog.pg_stat_wal_receiver) s on true
where r.standby
