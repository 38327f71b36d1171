INSERT INTO headroom.upsert_source (source, width, lane, writer)
SELECT $1, w, l, $2 FROM pg_catalog.unnest($3::int[]) AS w, pg_catalog.generate_series(0, w - 1) AS l
ON CONFLICT DO NOTHING
