-- The functions behind pg_stat_replication. A server that is a standby itself sends what it received. A standby that has
-- all has no lag in time, which the view shows as NULL.
with s as (
  select a.application_name, a.client_addr, w.*, case when pg_catalog.pg_is_in_recovery() then pg_catalog.pg_last_wal_receive_lsn()
                 else pg_catalog.pg_current_wal_lsn() end as here
  from pg_catalog.pg_stat_get_wal_senders() w join pg_catalog.pg_stat_get_activity(null) a on a.pid = w.pid
)
select coalesce(nullif(application_name, ''), '(unnamed)') as standby,
       coalesce(pg_catalog.host(client_addr), 'local') as client,
       max(pg_catalog.pg_wal_lsn_diff(here, sent_lsn))::float8 as postgres_standby_send_lag_bytes,
       max(pg_catalog.pg_wal_lsn_diff(here, write_lsn))::float8 as postgres_standby_write_lag_bytes,
       max(pg_catalog.pg_wal_lsn_diff(here, flush_lsn))::float8 as postgres_standby_flush_lag_bytes,
       max(pg_catalog.pg_wal_lsn_diff(here, replay_lsn))::float8 as postgres_standby_replay_lag_bytes,
       max(coalesce(extract(epoch from write_lag), case when write_lsn >= here then 0 end))::float8 as postgres_standby_write_lag_seconds,
       max(coalesce(extract(epoch from flush_lag), case when flush_lsn >= here then 0 end))::float8 as postgres_standby_flush_lag_seconds,
       max(coalesce(extract(epoch from replay_lag), case when replay_lsn >= here then 0 end))::float8 as postgres_standby_replay_lag_seconds,
       pg_catalog.bool_and(state = 'streaming')::int::float8 as postgres_standby_streaming,
       pg_catalog.bool_and(sync_state in ('sync', 'quorum'))::int::float8 as postgres_standby_synchronous
from s
group by 1, 2
order by 1, 2
limit 50
