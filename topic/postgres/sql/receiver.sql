-- On a standby only. Replay that has all that was received has no lag, however
-- long ago the last transaction was. Without streaming nothing is received.
select greatest(0, pg_catalog.pg_wal_lsn_diff(r.received, r.replayed))::float8 as postgres_replay_lag_bytes,
       case when r.received = r.replayed then 0
            else greatest(0, extract(epoch from pg_catalog.clock_timestamp() - pg_catalog.pg_last_xact_replay_timestamp())) end::float8 as postgres_replay_lag_seconds,
       pg_catalog.pg_is_wal_replay_paused()::int::float8 as postgres_replay_paused
from (select pg_catalog.pg_last_wal_receive_lsn() as received, pg_catalog.pg_last_wal_replay_lsn() as replayed) r
where pg_catalog.pg_is_in_recovery()
