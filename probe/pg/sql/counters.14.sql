-- One reading of the cumulative counters, in one statement. The checkpointer
-- waits in CheckpointerMain when it has nothing to do.
select d.*,
       pg_catalog.pg_wal_lsn_diff(pg_catalog.pg_current_wal_lsn(), '0/0')::bigint,
       a.vacuuming, a.checkpointing,
       c.checkpoints_timed, c.checkpoints_req, c.buffers_checkpoint, w.wal_records, w.wal_fpi
from (select sum(xact_commit)::bigint, sum(xact_rollback)::bigint, sum(tup_inserted)::bigint, sum(tup_updated)::bigint,
             sum(tup_deleted)::bigint, sum(tup_returned)::bigint, sum(tup_fetched)::bigint,
             sum(blks_read)::bigint, sum(blks_hit)::bigint, sum(temp_bytes)::bigint
      from pg_catalog.pg_stat_database) d,
     (select count(*) filter (where backend_type = 'autovacuum worker') as vacuuming,
             bool_or(wait_event is distinct from 'CheckpointerMain')
               filter (where backend_type = 'checkpointer'
                       and pg_catalog.pg_has_role(current_user, 'pg_read_all_stats', 'USAGE')) as checkpointing
      from pg_catalog.pg_stat_activity) a,
     pg_catalog.pg_stat_bgwriter c, pg_catalog.pg_stat_wal w
