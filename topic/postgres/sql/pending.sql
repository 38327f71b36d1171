select count(*) filter (where pending_restart)::float8 as postgres_settings_pending_restart,
       count(*) filter (where source in ('database', 'user', 'database user') or source = 'client' and name not in ('application_name', 'client_encoding'))::float8
         as postgres_settings_masked
from pg_catalog.pg_settings
