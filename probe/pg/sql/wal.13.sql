-- PostgreSQL 13 does not count its log. How much it wrote since when is told
-- by where the last checkpoint began, and by the full segments that are still
-- there: each was last written when it became full. The oldest such moment
-- counts. Segments recycled for later use lie after the present position;
-- those from before the server's start may have been copied here, and a
-- checkpoint from before it counts from the start on.
with now as (
  select pg_catalog.clock_timestamp() as at,
         case when pg_catalog.pg_is_in_recovery() then pg_catalog.pg_last_wal_replay_lsn() else pg_catalog.pg_current_wal_lsn() end as lsn
), segment as (
  select modification as at,
         ('x' || pg_catalog.substr(name, 9, 8))::bit(32)::bigint::numeric * 4294967296
         + (('x' || pg_catalog.substr(name, 17, 8))::bit(32)::bigint + 1) * pg_catalog.pg_size_bytes(pg_catalog.current_setting('wal_segment_size')) as full_at
  from pg_catalog.pg_ls_waldir() where name ~ '^[0-9A-F]{24}$'
), mark as (
  select at, full_at from segment where at >= pg_catalog.pg_postmaster_start_time()
  union all
  select greatest(checkpoint_time, pg_catalog.pg_postmaster_start_time()), pg_catalog.pg_wal_lsn_diff(redo_lsn, '0/0') from pg_catalog.pg_control_checkpoint()
)
select greatest(extract(epoch from now.at - mark.at), 1)::float8, null::bigint, null::bigint,
       (pg_catalog.pg_wal_lsn_diff(now.lsn, '0/0') - mark.full_at)::bigint, null::bigint
from now, mark where mark.full_at <= pg_catalog.pg_wal_lsn_diff(now.lsn, '0/0')
order by mark.full_at limit 1
