-- The function behind pg_stat_activity: the view joins roles and databases to
-- it. All states, so that none is 0 and not absent. To 17 a session that begins
-- has no state yet.
select s.state, count(a.pid)::float8 as postgres_connections
from (values ('active'), ('idle'), ('idle in transaction'), ('idle in transaction (aborted)'),
             ('fastpath function call'), ('disabled'), ('starting')) s (state)
     left join pg_catalog.pg_stat_get_activity(null) a
       on coalesce(a.state, 'starting') = s.state and a.backend_type = 'client backend' and a.pid <> pg_catalog.pg_backend_pid()
group by s.state
