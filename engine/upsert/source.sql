CREATE TABLE IF NOT EXISTS headroom.upsert_source (
  source text,
  width int,
  lane int,
  seq bigint NOT NULL DEFAULT 0,
  done bigint[] NOT NULL DEFAULT '{}',
  writer text NOT NULL,
  batch bigint NOT NULL DEFAULT 0,
  at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (source, width, lane)
) WITH (fillfactor = 50)
