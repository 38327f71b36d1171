-- What a writer must know of a table. $1 is its oid.
SELECT n.nspname, c.relname, c.relkind::text,
  c.relpersistence = 'u' OR EXISTS (
    SELECT FROM pg_catalog.pg_partition_tree(c.oid) p JOIN pg_catalog.pg_class x ON x.oid = p.relid
    WHERE p.isleaf AND x.relpersistence = 'u'),
  c.relpersistence = 't',
  c.relrowsecurity,
  EXISTS (SELECT FROM pg_catalog.pg_trigger g WHERE g.tgrelid = c.oid AND NOT g.tgisinternal),
  EXISTS (SELECT FROM pg_catalog.pg_rewrite r WHERE r.ev_class = c.oid AND r.ev_type IN ('2', '3')),
  pg_catalog.current_setting('server_version_num')::int
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.oid = $1
