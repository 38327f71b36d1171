select coalesce(extract(epoch from max(pg_catalog.clock_timestamp() - waitstart)), 0)::float8 as postgres_longest_lock_wait_seconds
from pg_catalog.pg_locks
where not granted
