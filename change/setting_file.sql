-- Every line of the configuration files about the names in $1, in the order
-- in which they count, and whether it stands in postgresql.auto.conf.
select pg_catalog.lower(f.name), f.setting,
       f.sourcefile = pg_catalog.current_setting('data_directory') || '/postgresql.auto.conf'
from pg_catalog.pg_file_settings f
where pg_catalog.lower(f.name) = any ($1::text[])
order by f.seqno
