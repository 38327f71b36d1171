-- What the server holds for each of the names in $1: how it is written, what
-- is in force for new sessions (reset_val: our own session sets some for
-- itself), and what could stand above the configuration files.
select n.name as name,
       s.name is not null as known,
       coalesce(s.vartype, ''), coalesce(s.unit, ''), coalesce(s.context, ''), coalesce(s.source, ''),
       coalesce(s.min_val, ''), coalesce(s.max_val, ''), coalesce(s.enumvals, '{}'),
       coalesce(s.boot_val, ''), coalesce(s.reset_val, ''), coalesce(s.pending_restart, false), s.sourcefile
from unnest($1::text[]) with ordinality n(name, at)
left join pg_catalog.pg_settings s on pg_catalog.lower(s.name) = n.name
order by n.at
