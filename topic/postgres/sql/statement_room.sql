select count(*)::float8 as postgres_statements, pg_catalog.current_setting('pg_stat_statements.max')::float8 as postgres_statements_limit
from {schema}.pg_stat_statements(false)
