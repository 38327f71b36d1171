-- The unique indexes of a table, with what keeps them from deciding a conflict. $1 is its oid.
SELECT x.relname, i.indisvalid AND i.indisready, i.indimmediate,
  i.indpred IS NOT NULL, i.indexprs IS NOT NULL,
  ARRAY(SELECT k::int FROM pg_catalog.unnest((i.indkey::int2[])[0:i.indnkeyatts - 1]) AS k)
FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class x ON x.oid = i.indexrelid
WHERE i.indrelid = $1 AND i.indisunique
ORDER BY x.relname
