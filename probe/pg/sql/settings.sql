-- All settings this role may see. reset_val and not setting: our own session
-- has time limits and a search path of its own.
select s.name, coalesce(s.reset_val, ''), coalesce(s.unit, ''), s.vartype, s.context, s.source,
       coalesce(s.sourcefile, ''), coalesce(s.sourceline, 0)::bigint, coalesce(s.boot_val, ''), s.pending_restart,
       coalesce(s.min_val, ''), coalesce(s.max_val, ''), coalesce(s.enumvals, '{}'),
       coalesce((select rolsuper from pg_catalog.pg_roles where rolname = current_user), false)
       or coalesce((select pg_catalog.pg_has_role(current_user, oid, 'USAGE')
                    from pg_catalog.pg_roles where rolname = 'pg_read_all_settings'), false)
from pg_catalog.pg_settings s
