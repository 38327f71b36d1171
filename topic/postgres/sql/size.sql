select pg_catalog.pg_database_size($1::oid)::float8
