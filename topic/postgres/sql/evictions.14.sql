select dealloc::float8 as postgres_statements_evicted_total from {schema}.pg_stat_statements_info
