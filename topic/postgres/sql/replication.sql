select (select count(*) from pg_catalog.pg_stat_get_wal_senders())::float8 as postgres_standbys,
       (select count(*) from pg_catalog.pg_get_replication_slots())::float8 as postgres_slots,
       pg_catalog.current_setting('max_wal_senders')::float8 as postgres_standbys_limit,
       pg_catalog.current_setting('max_replication_slots')::float8 as postgres_slots_limit
