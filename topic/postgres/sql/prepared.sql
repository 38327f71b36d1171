select count(*)::float8 as postgres_prepared_transactions,
       coalesce(extract(epoch from max(pg_catalog.clock_timestamp() - prepared)), 0)::float8 as postgres_oldest_prepared_transaction_seconds
from pg_catalog.pg_prepared_xact()
