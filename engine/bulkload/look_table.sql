select c.oid, n.nspname, c.relname, c.relkind::text, c.relpersistence::text, c.reltuples::float8,
       case when c.relkind = 'r' then pg_relation_size(c.oid) else 0 end,
       pg_stat_get_dead_tuples(c.oid),
       c.relispartition, c.relreplident::text,
       row_security_active(c.oid),
       has_table_privilege(c.oid, 'INSERT') or has_any_column_privilege(c.oid, 'INSERT'),
       has_table_privilege(c.oid, 'TRUNCATE'),
       pg_has_role(c.relowner, 'USAGE'),
       array(select k.conrelid::regclass::text || ' (' || k.conname || ')' from pg_constraint k
              where k.contype = 'f' and k.confrelid = c.oid and k.conrelid <> c.oid and k.conparentid = 0 order by 1),
       array(select p.pubname::text from pg_publication_tables p where p.schemaname = n.nspname and p.tablename = c.relname order by 1),
       exists (select from pg_trigger t where t.tgrelid = c.oid and not t.tgisinternal and t.tgenabled in ('O', 'A') and t.tgtype & 1 = 1 and t.tgtype & 4 = 4),
       exists (select from pg_trigger t where t.tgrelid = c.oid and not t.tgisinternal and t.tgenabled in ('O', 'A') and t.tgtype & 40 <> 0)
  from pg_class c join pg_namespace n on n.oid = c.relnamespace
 where c.oid = $1
