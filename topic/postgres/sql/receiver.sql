-- On a standby only. Replay that has all that was received has no lag, however
-- long ago the last transaction was; one that reads from the archive may be
-- ahead of what was streamed. greatest() passes over NULL: unknown must stay so.
select case when r.received is not null then greatest(0, pg_catalog.pg_wal_lsn_diff(r.received, r.replayed)) end::float8 as postgres_replay_lag_bytes,
       case when r.received <= r.replayed then 0
            else extract(epoch from pg_catalog.clock_timestamp() - pg_catalog.pg_last_xact_replay_timestamp()) end::float8 as postgres_replay_lag_seconds,
       pg_catalog.pg_is_wal_replay_paused()::int::float8 as postgres_replay_paused
from (select pg_catalog.pg_last_wal_receive_lsn() as received, pg_catalog.pg_last_wal_replay_lsn() as replayed) r
where pg_catalog.pg_is_in_recovery()
