-- Normal forms: one way to write a thing, so that a plain index finds it.

create or replace function headroom.mac12(x text) returns text
language plpgsql immutable strict parallel safe set search_path = pg_catalog, pg_temp as $$
declare
	digits text := lower(regexp_replace(btrim(x), '[-:.]', '', 'g') collate "C");
begin
	if digits !~ '^[0-9a-f]{12}$' then
		raise exception 'mac12: % is not a MAC address', quote_literal(left(x, 64))
			using errcode = 'invalid_text_representation', hint = 'A MAC address has 12 hexadecimal digits, with or without ":", "-" or ".".';
	end if;
	return digits;
end $$;
comment on function headroom.mac12(text) is 'A MAC address however written, as 12 lower-case hexadecimal digits; an error if it is none';

create or replace function headroom.is_mac12(x text) returns boolean
language sql immutable parallel safe as $$
	select x collate pg_catalog."C" operator(pg_catalog.~) '^[0-9a-f]{12}$'
$$;
comment on function headroom.is_mac12(text) is 'Whether x is a MAC address as 12 lower-case hexadecimal digits';

create or replace function headroom.is_mac(x text) returns boolean
language sql immutable parallel safe as $$
	select x collate pg_catalog."C" operator(pg_catalog.~) '^[0-9a-f]{2}(:[0-9a-f]{2}){5}$'
$$;
comment on function headroom.is_mac(text) is 'Whether x is a MAC address as six lower-case pairs with colons';

create or replace function headroom.is_uuid(x text) returns boolean
language sql immutable parallel safe as $$
	select x collate pg_catalog."C" operator(pg_catalog.~) '^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$'
$$;
comment on function headroom.is_uuid(text) is 'Whether x is a UUID as PostgreSQL prints it: lower case, with hyphens';

create or replace function headroom.is_hex(x text) returns boolean
language sql immutable parallel safe as $$
	select x collate pg_catalog."C" operator(pg_catalog.~) '^([0-9a-f]{2})+$'
$$;
comment on function headroom.is_hex(text) is 'Whether x is whole bytes as lower-case hexadecimal digits';

create or replace function headroom.is_lower(x text) returns boolean
language sql immutable parallel safe as $$
	select x operator(pg_catalog.=) pg_catalog.lower(x)
$$;
comment on function headroom.is_lower(text) is 'Whether x has no upper-case letters';

create or replace function headroom.is_trimmed(x text) returns boolean
language sql immutable parallel safe as $$
	select x collate pg_catalog."C" operator(pg_catalog.!~) '^[[:space:]]|[[:space:]]$'
$$;
comment on function headroom.is_trimmed(text) is 'Whether x has no white space at its start and end';

create or replace function headroom.is_iso_time(x text) returns boolean
language sql immutable parallel safe as $$
	select x collate pg_catalog."C" operator(pg_catalog.~) '^[0-9]{4}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8]))T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]{1,6})?Z$|^([0-9]{2}(0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00)-02-29T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]{1,6})?Z$'
$$;
comment on function headroom.is_iso_time(text) is 'Whether x is a time stamp in UTC as 2026-11-21T13:05:00Z, seconds with up to six decimals, on a day that exists; such texts sort by time';

create or replace function headroom._form(form text, x text) returns text
language sql immutable strict parallel safe set search_path = pg_catalog, pg_temp as $$
	-- The same as the functions is_FORM, written out, so that a constraint does
	-- not depend on this schema and is dumped and restored without it.
	select case form
		when 'mac12' then x || ' collate pg_catalog."C" operator(pg_catalog.~) ''^[0-9a-f]{12}$'''
		when 'mac' then x || ' collate pg_catalog."C" operator(pg_catalog.~) ''^[0-9a-f]{2}(:[0-9a-f]{2}){5}$'''
		when 'uuid' then x || ' collate pg_catalog."C" operator(pg_catalog.~) ''^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$'''
		when 'hex' then x || ' collate pg_catalog."C" operator(pg_catalog.~) ''^([0-9a-f]{2})+$'''
		when 'lower' then x || ' operator(pg_catalog.=) pg_catalog.lower(' || x || ')'
		when 'trimmed' then x || ' collate pg_catalog."C" operator(pg_catalog.!~) ''^[[:space:]]|[[:space:]]$'''
		when 'iso_time' then x || ' collate pg_catalog."C" operator(pg_catalog.~) ''^[0-9]{4}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8]))T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]{1,6})?Z$|^([0-9]{2}(0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00)-02-29T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]{1,6})?Z$'''
	end
$$;
comment on function headroom._form(text, text) is 'Internal: the condition of a form, for the expression x';

create or replace function headroom._fit(name text, suffix text) returns text
language plpgsql immutable strict parallel safe set search_path = pg_catalog, pg_temp as $$
declare
	n integer := length(name);
begin
	if octet_length(suffix) > 40 then
		suffix := '_' || left(md5(suffix), 12);
	end if;
	if octet_length(name) + octet_length(suffix) > 63 then
		suffix := '_' || left(md5(name), 6) || suffix;
	end if;
	while octet_length(left(name, n)) + octet_length(suffix) > 63 loop
		n := n - 1;
	end loop;
	return left(name, n) || suffix;
end $$;
comment on function headroom._fit(text, text) is 'Internal: both together in at most 63 bytes, still distinct';

create or replace function headroom._checked(tbl regclass, col text, form text, field text, out value text, out condition text, out name text)
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
	typ text;
	category "char";
begin
	perform headroom._columns(tbl, array[col]);
	select format_type(a.atttypid, null), t.typcategory into typ, category
	from pg_attribute a join pg_type t on t.oid = a.atttypid where a.attrelid = tbl and a.attname = col;
	if field is not null then
		if typ not in ('json', 'jsonb') then
			raise exception 'add a check to %.%: a field is named, and the column is % and not jsonb', tbl, quote_ident(col), typ using errcode = 'datatype_mismatch';
		end if;
		value := format('(%I operator(pg_catalog.->>) %L)', col, field);
	elsif category <> 'S' then
		raise exception 'add a check to %.%: the column is % and not text', tbl, quote_ident(col), typ
			using errcode = 'datatype_mismatch', hint = 'A type of its own has one way to write each value already.';
	else
		value := format('%I::pg_catalog.text', col);
	end if;
	condition := headroom._form(form, value);
	if condition is null then
		raise exception 'add a check to %.%: no form %', tbl, quote_ident(col), quote_nullable(form)
			using errcode = 'invalid_parameter_value', hint = 'There are: mac12, mac, uuid, hex, lower, trimmed, iso_time.';
	end if;
	name := headroom._fit(col, concat('_' || field, '_is_', form));
end $$;
comment on function headroom._checked(regclass, text, text, text) is 'Internal: what headroom.add_check puts on a table';

create or replace procedure headroom.add_check(tbl regclass, col text, form text, field text default null, lock_wait interval default '2 s')
language plpgsql as $$
-- No SET clause: a procedure with one cannot commit. So all names are qualified.
declare
	c record := headroom._checked(tbl, col, form, field);
	wait text := pg_catalog.concat(pg_catalog.date_part('epoch', lock_wait)::integer, 's');
	valid boolean;
	bad text;
begin
	valid := (select k.convalidated from pg_catalog.pg_constraint k
		where k.conrelid operator(pg_catalog.=) tbl and k.conname::text operator(pg_catalog.=) c.name and k.contype operator(pg_catalog.=) 'c'::"char");
	if valid then
		raise notice 'constraint % on % is there and valid', pg_catalog.quote_ident(c.name), tbl;
		return;
	end if;
	if valid is null then
		perform pg_catalog.set_config('lock_timeout', wait, true);
		begin
			execute pg_catalog.format('alter table %s add constraint %I check (%s) not valid', tbl, c.name, c.condition);
		exception when lock_not_available then
			raise exception 'add a check to %: another session holds a lock on the table for more than %', tbl, lock_wait
				using errcode = 'lock_not_available', hint = 'Try again when it is less busy, or give lock_wait.';
		end;
		commit; -- ends the lock that stops everybody; what follows lets writers work
	end if;
	perform pg_catalog.set_config('lock_timeout', wait, true);
	begin
		execute pg_catalog.format('alter table %s validate constraint %I', tbl, c.name);
	exception
		when check_violation then
			execute pg_catalog.format('select pg_catalog.string_agg(pg_catalog.quote_literal(pg_catalog.left(s.v, 64)), %L) from (select distinct %s as v from %s where not (%s) limit 3) s',
				', ', c.value, tbl, c.condition) into bad;
			raise exception 'validate constraint % on %: some rows are not of the form %, such as %', pg_catalog.quote_ident(c.name), tbl, form, bad
				using errcode = 'check_violation', detail = 'New rows are checked from now on; old ones are not yet.',
				hint = pg_catalog.format('Correct them and call headroom.add_check again. They are found by: select * from %s where not (%s);', tbl, c.condition);
		when lock_not_available then
			raise exception 'validate constraint % on %: another session holds a lock on the table for more than %', pg_catalog.quote_ident(c.name), tbl, lock_wait
				using errcode = 'lock_not_available', detail = 'New rows are checked from now on; old ones are not yet.', hint = 'Call headroom.add_check again later.';
	end;
end $$;
comment on procedure headroom.add_check(regclass, text, text, text, interval) is 'Holds a text column, or a field of a jsonb column, to a normal form by a CHECK constraint: NOT VALID first, then validated while writers go on. Not inside a transaction block';
