select name as slru, blks_hit::float8 as postgres_slru_blocks_hit_total, blks_read::float8 as postgres_slru_blocks_read_total,
       blks_written::float8 as postgres_slru_blocks_written_total, flushes::float8 as postgres_slru_flushes_total
from pg_catalog.pg_stat_slru
