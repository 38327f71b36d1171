-- Who answers, by its own word, and what we may see there. All of it is open
-- to everybody by default; where it was closed, servers are told apart by
-- their addresses.
select (pg_catalog.pg_control_system()).system_identifier::text,
       (extract(epoch from pg_catalog.pg_postmaster_start_time()) * 1000000)::bigint,
       pg_catalog.current_setting('port')::int,
       case
         when (select rolsuper from pg_catalog.pg_roles where rolname = current_user) then 3
         when pg_catalog.pg_has_role(current_user, 'pg_monitor', 'USAGE') then 2
         else 1
       end,
       pg_catalog.pg_backend_pid()
