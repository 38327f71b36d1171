with d as (
  select d.*, case when row_number() over (order by d.oid) <= 50 then d.datname::text else '(others)' end as database
  from pg_catalog.pg_database d
)
select database,
       max(pg_catalog.age(datfrozenxid))::float8 as postgres_database_xid_age,
       max(pg_catalog.mxid_age(datminmxid))::float8 as postgres_database_multixact_age
from d
group by database
