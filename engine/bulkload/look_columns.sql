select a.attname, format_type(a.atttypid, a.atttypmod),
       case when t.typtype = 'b' and t.typnamespace = 'pg_catalog'::regnamespace then t.typname::text else '' end,
       a.atttypmod, a.attnotnull, a.attgenerated <> '', a.attidentity::text, a.atthasdef
  from pg_attribute a join pg_type t on t.oid = a.atttypid
 where a.attrelid = $1 and a.attnum > 0 and not a.attisdropped
 order by a.attnum
