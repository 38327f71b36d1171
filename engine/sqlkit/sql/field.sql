-- Fields of documents: "doc ->> 'nmae'" finds nothing and says nothing. With
-- "doc ->> headroom.json_field_check('t', 'doc', 'nmae')" it is an error.

create table if not exists headroom.json_field (
	tbl  regclass not null,
	col  text not null,
	path text[] not null check (array_ndims(path) = 1 and array_position(path, null) is null),
	primary key (tbl, col, path)
);
comment on table headroom.json_field is 'The known fields of documents, for headroom.json_field_check; who owns a table may change what is known of it';
grant select, insert, update, delete on headroom.json_field to public;

create or replace function headroom._json_field_owner() returns trigger
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
	t regclass := case tg_op when 'DELETE' then old.tbl else new.tbl end;
begin
	if exists (select from pg_class where oid = t and not pg_has_role(relowner, 'usage'))
		or tg_op = 'UPDATE' and exists (select from pg_class where oid = old.tbl and not pg_has_role(relowner, 'usage')) then
		raise exception 'change the known fields of %: it belongs to somebody else', t using errcode = 'insufficient_privilege',
			hint = 'Its owner can do it.';
	end if;
	return case tg_op when 'DELETE' then old else new end;
end $$;
comment on function headroom._json_field_owner() is 'Internal: lets owners only change the known fields of a table';
drop trigger if exists owner_only on headroom.json_field;
create trigger owner_only before insert or update or delete on headroom.json_field for each row execute function headroom._json_field_owner();

create or replace function headroom._json_column(tbl regclass, col text) returns text
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
	typ text;
begin
	perform headroom._columns(tbl, array[col]);
	select format_type(getbase.oid, null) into typ from pg_attribute a join pg_type t on t.oid = a.atttypid
		join pg_type getbase on getbase.oid = case t.typtype when 'd' then t.typbasetype else t.oid end
	where a.attrelid = tbl and a.attname = col;
	if typ not in ('json', 'jsonb') then
		raise exception 'fields of %.%: the column is % and not jsonb', tbl, quote_ident(col), typ using errcode = 'datatype_mismatch';
	end if;
	return format('%I::jsonb', col);
end $$;
comment on function headroom._json_column(regclass, text) is 'Internal: a column of documents, as an expression';

create or replace function headroom.json_fields_learn(tbl regclass, col text, sample bigint default 100000, depth integer default 3) returns bigint
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
	doc text := headroom._json_column(tbl, col);
	rel pg_class;
	part text := '';
	n bigint;
begin
	select * into rel from pg_class where oid = tbl;
	if rel.relkind in ('r', 'p', 'm') and rel.reltuples > sample then
		part := format(' tablesample system (%s)', greatest(0.01, least(100, 110.0 * sample / rel.reltuples::numeric))::numeric(8, 4));
	end if;
	-- Fields that went with their table.
	delete from headroom.json_field f where not exists (select from pg_class c where c.oid = f.tbl);
	execute format('with recursive d as (
			select array[e.key] as path, e.value from (select %1$s as doc from %2$s%3$s limit $1) s
			cross join lateral jsonb_each(case jsonb_typeof(s.doc) when ''object'' then s.doc end) e
			union all
			select d.path || e.key, e.value from d
			cross join lateral jsonb_each(case jsonb_typeof(d.value) when ''object'' then d.value end) e where cardinality(d.path) < $2),
		few as (select distinct path from d limit 10001),
		new as (insert into headroom.json_field select $3, $4, path from few where (select count(*) from few) <= 10000 on conflict do nothing returning 1)
		select case when (select count(*) from few) <= 10000 then (select count(*) from new) end', doc, tbl, part)
	into n using sample, depth, tbl, col;
	if n is null then
		raise exception 'learn the fields of %.%: more than 10000 different ones', tbl, quote_ident(col) using errcode = 'program_limit_exceeded',
			hint = 'Some field names seem to be data. Lower depth, or declare the fields: headroom.json_fields_declare(table, column, field, ...).';
	end if;
	return n;
end $$;
comment on function headroom.json_fields_learn(regclass, text, bigint, integer) is 'Makes known the fields that a sample of the documents has, down to a depth; returns how many were new';

create or replace function headroom.json_fields_declare(tbl regclass, col text, variadic fields text[]) returns bigint
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
	n bigint;
begin
	perform headroom._json_column(tbl, col);
	insert into headroom.json_field select tbl, col, array[f] from unnest(fields) f on conflict do nothing;
	get diagnostics n = row_count;
	return n;
end $$;
comment on function headroom.json_fields_declare(regclass, text, text[]) is 'Makes fields known; returns how many were new';

create or replace function headroom.json_path_declare(tbl regclass, col text, variadic path text[]) returns bigint
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
	n bigint;
begin
	perform headroom._json_column(tbl, col);
	insert into headroom.json_field select tbl, col, path[1:i] from generate_subscripts(path, 1) i on conflict do nothing;
	get diagnostics n = row_count;
	return n;
end $$;
comment on function headroom.json_path_declare(regclass, text, text[]) is 'Makes a field inside a field known: json_path_declare(table, column, outer, inner); returns how many were new';

create or replace function headroom.json_path_check(tbl regclass, col text, variadic path text[]) returns text[]
language plpgsql immutable parallel safe set search_path = pg_catalog, pg_temp as $$
declare
	known text[];
begin
	if exists (select from headroom.json_field f where f.tbl = json_path_check.tbl and f.col = json_path_check.col and f.path = json_path_check.path) then
		return path;
	end if;
	perform headroom._json_column(tbl, col);
	if not exists (select from headroom.json_field f where f.tbl = json_path_check.tbl and f.col = json_path_check.col) then
		raise exception 'fields of %.%: none are known', tbl, quote_ident(col) using errcode = 'object_not_in_prerequisite_state',
			hint = format('Learn them from the documents: select headroom.json_fields_learn(%L, %L);', tbl, col);
	end if;
	for i in 1 .. cardinality(path) loop
		continue when exists (select from headroom.json_field f where f.tbl = json_path_check.tbl and f.col = json_path_check.col and f.path = json_path_check.path[1:i]);
		select array_agg(f.path[i] order by f.path[i]) into known from headroom.json_field f
		where f.tbl = json_path_check.tbl and f.col = json_path_check.col and cardinality(f.path) = i and f.path[1:i - 1] = json_path_check.path[1:i - 1];
		raise exception 'documents in %.% have no field %', tbl, quote_ident(col), array_to_string(array(select quote_ident(x) from unnest(path[1:i]) x), '.')
			using errcode = 'undefined_column', hint = headroom._meant(path[i], known),
			detail = 'If it is a new one: headroom.json_path_declare, or headroom.json_fields_learn.';
	end loop;
	raise exception 'fields of %.%: no field named', tbl, quote_ident(col) using errcode = 'invalid_parameter_value';
end $$;
comment on function headroom.json_path_check(regclass, text, text[]) is 'The path to a field inside a field, if it is known; else an error: doc #>> headroom.json_path_check(table, column, outer, inner). Done once, when the query is planned';

create or replace function headroom.json_field_check(tbl regclass, col text, field text) returns text
language plpgsql immutable parallel safe set search_path = pg_catalog, pg_temp as $$
begin
	return (headroom.json_path_check(tbl, col, field))[1];
end $$;
comment on function headroom.json_field_check(regclass, text, text) is 'The field''s name, if it is known; else an error: doc ->> headroom.json_field_check(table, column, field). Done once, when the query is planned, so that indexes on doc ->> field are used';
