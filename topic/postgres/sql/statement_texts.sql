-- The same 50 statements, with the beginning of a text of each.
with s as (
  select queryid, dbid, sum(total_exec_time) as exec_time
  from {schema}.pg_stat_statements(false)
  where queryid is not null
  group by queryid, dbid
  order by exec_time desc, queryid
  limit 50
)
select s.queryid::text, min(pg_catalog.left(t.query, 2000))
from (select distinct queryid from s) s join {schema}.pg_stat_statements(true) t on t.queryid = s.queryid
group by s.queryid
