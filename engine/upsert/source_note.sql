UPDATE headroom.upsert_source SET seq = %d, done = '{%s}', batch = %d, at = pg_catalog.now()
WHERE source = %s AND width = %d AND lane = %d AND writer = %s
RETURNING pg_catalog.pg_current_xact_id()::text
