-- The columns of a table, those of domains with the type below. $1 is its oid.
WITH RECURSIVE base(attnum, oid, mod) AS (
  SELECT a.attnum, a.atttypid, a.atttypmod FROM pg_catalog.pg_attribute a
  WHERE a.attrelid = $1 AND a.attnum > 0 AND NOT a.attisdropped
 UNION ALL
  SELECT b.attnum, t.typbasetype, t.typtypmod FROM base b JOIN pg_catalog.pg_type t ON t.oid = b.oid WHERE t.typtype = 'd'
)
SELECT a.attnum::int, a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod),
  a.attnotnull, a.attgenerated <> '', a.attidentity = 'a',
  a.atthasdef OR a.attidentity <> '',
  n.nspname, t.typname, t.typtype = 'e', b.mod,
  coalesce(l.collisdeterministic, true)
FROM base b
JOIN pg_catalog.pg_type t ON t.oid = b.oid AND t.typtype <> 'd'
JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace
JOIN pg_catalog.pg_attribute a ON a.attrelid = $1 AND a.attnum = b.attnum
LEFT JOIN pg_catalog.pg_collation l ON l.oid = a.attcollation
ORDER BY a.attnum
