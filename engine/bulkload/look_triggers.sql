select t.tgname, t.oid, t.tgenabled::text, pg_get_triggerdef(t.oid),
       case when exists (select from pg_depend d where d.objid = t.oid and d.classid = 'pg_trigger'::regclass and d.deptype = 'e') then 'an extension owns it' else '' end
  from pg_trigger t
 where t.tgrelid = $1 and not t.tgisinternal
 order by t.tgname
