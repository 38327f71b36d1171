-- What the configuration files set, and the server's command line, which wins
-- over them. For superusers.
select coalesce(f.name, ''), coalesce(f.setting, ''), coalesce(f.sourcefile, ''), coalesce(f.sourceline, 0)::bigint, o.line
from (select coalesce(pg_catalog.pg_read_file('postmaster.opts', 0, 100000, true), '') as line) o
left join pg_catalog.pg_file_settings f on f.applied and f.error is null
