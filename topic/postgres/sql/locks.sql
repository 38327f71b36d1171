-- Each session holds a lock on its own transaction: only waits for those tell.
select m.mode,
       count(*) filter (where l.granted and l.locktype not in ('virtualxid', 'transactionid'))::float8 as postgres_locks,
       count(*) filter (where not l.granted)::float8 as postgres_locks_waiting
from (values ('AccessShareLock'), ('RowShareLock'), ('RowExclusiveLock'), ('ShareUpdateExclusiveLock'), ('ShareLock'),
             ('ShareRowExclusiveLock'), ('ExclusiveLock'), ('AccessExclusiveLock'), ('SIReadLock')) m (mode)
     left join pg_catalog.pg_locks l on l.mode = m.mode and l.pid is distinct from pg_catalog.pg_backend_pid()
group by m.mode
