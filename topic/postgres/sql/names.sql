-- The right to connect, or to read all statistics, is what the size takes.
select d.oid, d.datname::text,
       pg_catalog.has_database_privilege(d.oid, 'CONNECT') or pg_catalog.pg_has_role(current_user, 'pg_read_all_stats', 'USAGE')
from pg_catalog.pg_database d
order by d.oid
limit 50
