-- Counters that many sessions add to at once without waiting for each other: a
-- counter's value is spread over slots; who adds takes a slot that nobody has
-- locked, or makes a new one. So there are as many slots as sessions ever
-- added in the same moment. The sum is exact.

create or replace function headroom.counter_create(name text, schema text default null) returns regclass
language plpgsql as $$
-- No SET clause: without a schema the table is made where the caller's
-- search_path says. So all names are qualified.
declare
	place text := coalesce(schema, pg_catalog.current_schema()::text);
begin
	if place is null then
		raise exception 'create the counter %: no schema to create it in', pg_catalog.quote_nullable(name)
			using errcode = 'invalid_schema_name', hint = 'Name one: headroom.counter_create(name, schema).';
	end if;
	if name is null or pg_catalog.octet_length(name) operator(pg_catalog.>) 63 then
		raise exception 'create the counter %: a name has at most 63 bytes', pg_catalog.quote_nullable(name) using errcode = 'invalid_name';
	end if;
	execute pg_catalog.format('create table %I.%I (key pg_catalog.text not null, slot pg_catalog.int8 generated always as identity, value pg_catalog.int8 not null, primary key (key, slot)) with (fillfactor = 50)', place, name);
	execute pg_catalog.format('comment on table %I.%I is %L', place, name, 'Counters of Headroom: a key''s value is the sum over its slots; see headroom.counter_read');
	return pg_catalog.format('%I.%I', place, name)::pg_catalog.regclass;
end $$;
comment on function headroom.counter_create(text, text) is 'Makes a table of counters, which is yours: it stays when the SQL kit goes';

create or replace function headroom.counter_add(tbl regclass, key text, delta bigint default 1) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
	free bigint;
begin
	-- In the stricter isolation levels a slot that changed since the snapshot
	-- cannot be locked: there, each addition is a slot, until compacted.
	if current_setting('transaction_isolation') = 'read committed' then
		execute format('select slot from %s where key = $1 limit 1 for update skip locked', tbl) into free using key;
	end if;
	if free is null then
		execute format('insert into %s (key, value) values ($1, $2)', tbl) using key, delta;
	else
		execute format('update %s set value = value + $3 where key = $1 and slot = $2', tbl) using key, free, delta;
	end if;
end $$;
comment on function headroom.counter_add(regclass, text, bigint) is 'Adds to a counter, without waiting for others who add to it';

create or replace function headroom.counter_read(tbl regclass, key text) returns numeric
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
	total numeric;
begin
	execute format('select coalesce(sum(value), 0) from %s where key = $1', tbl) into total using key;
	return total;
end $$;
comment on function headroom.counter_read(regclass, text) is 'The value of a counter, 0 if nothing was ever added';

create or replace function headroom.counter_values(tbl regclass, out key text, out value numeric) returns setof record
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
	return query execute format('select key, sum(value) from %s group by key order by key', tbl);
end $$;
comment on function headroom.counter_values(regclass) is 'All counters of a table with their values';

create or replace function headroom.counter_compact(tbl regclass, key text default null) returns bigint
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
	gone bigint;
begin
	if current_setting('transaction_isolation') <> 'read committed' then
		raise exception 'compact %: this transaction is %', tbl, current_setting('transaction_isolation')
			using errcode = 'invalid_transaction_state', hint = 'Compact in a transaction that is read committed.';
	end if;
	-- The locks hold what was read: nobody changes these slots before commit,
	-- and who adds meanwhile takes others.
	execute format('with held as materialized (select key, slot, value from %1$s where $1 is null or key = $1 order by key, slot for update skip locked),
		merged as (select key, min(slot) as slot, sum(value) as value from held group by key having count(*) > 1),
		kept as (update %1$s t set value = m.value from merged m where t.key = m.key and t.slot = m.slot),
		dropped as (delete from %1$s t using held h, merged m where t.key = h.key and t.slot = h.slot and h.key = m.key and h.slot <> m.slot returning 1)
		select count(*) from dropped', tbl) into gone using key;
	return gone;
end $$;
comment on function headroom.counter_compact(regclass, text) is 'Merges the slots that nobody holds, of one counter or all; returns how many slots went';
