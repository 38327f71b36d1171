-- The last step of value_counts: what was gathered is grouped and counted in
-- one go, so that the time is linear in the rows whatever the number of values.

create or replace function headroom._groupable(t regtype) returns boolean
language plpgsql stable strict parallel safe set search_path = pg_catalog, pg_temp as $$
declare
	ty pg_catalog.pg_type;
begin
	select * into ty from pg_type where oid = t;
	return case
		when ty.typtype = 'd' then headroom._groupable(ty.typbasetype)
		when ty.typtype in ('e', 'r', 'm') then true
		when ty.typtype = 'c' then not exists (
			select from pg_attribute a where a.attrelid = ty.typrelid and a.attnum > 0 and not a.attisdropped
				and not headroom._groupable(a.atttypid))
		when ty.typcategory = 'A' and ty.typelem <> 0 then headroom._groupable(ty.typelem)
		else exists (
			select from pg_opclass c join pg_am m on m.oid = c.opcmethod
			where c.opcdefault and m.amname in ('btree', 'hash')
				and (c.opcintype = t or exists (
					select from pg_cast k where k.castsource = t and k.casttarget = c.opcintype
						and k.castmethod = 'b' and k.castcontext = 'i')))
	end;
end $$;
comment on function headroom._groupable(regtype) is 'Internal: whether GROUP BY takes values of this type';

create or replace function headroom._counts(vals anycompatiblearray) returns jsonb
language plpgsql stable parallel safe set search_path = pg_catalog, pg_temp set plan_cache_mode = force_generic_plan set enable_sort = off set jit = off as $$
declare
	result jsonb;
	t oid := pg_typeof(vals)::oid;
begin
	if vals is null then
		return '{}';
	end if;
	-- Whole numbers, texts, booleans, uuid: equal exactly if their text is, so
	-- that one grouping is enough.
	if t in ('int4[]'::regtype, 'int8[]'::regtype, 'int2[]'::regtype, 'text[]'::regtype, 'varchar[]'::regtype, 'bool[]'::regtype, 'uuid[]'::regtype) then
		select jsonb_object_agg(g.v::text, g.n) filter (where g.v is not null) into result
		from (select s.v, count(*) as n from (select unnest(vals) as v) s group by s.v) g;
	elsif t in ('timestamptz[]'::regtype, 'timestamp[]'::regtype, 'date[]'::regtype) then
		-- ISO 8601, whatever DateStyle says.
		select jsonb_object_agg(to_jsonb(g.v) #>> '{}', g.n) filter (where g.v is not null) into result
		from (select s.v, count(*) as n from (select unnest(vals) as v) s group by s.v) g;
	elsif headroom._groupable((select typelem from pg_type where oid = t)) then
		select jsonb_object_agg(h.k, h.n) into result
		from (select g.v::text as k, sum(g.n)::bigint as n
			from (select s.v, count(*) as n from (select unnest(vals) as v) s group by s.v) g
			where g.v is distinct from null group by 1) h;
	else
		select jsonb_object_agg(g.k, g.n) into result
		from (select s.v::text as k, count(*) as n from (select unnest(vals) as v) s where s.v is distinct from null group by 1) g;
	end if;
	return coalesce(result, '{}');
end $$;
comment on function headroom._counts(anycompatiblearray) is 'Internal: the last step of headroom.value_counts';

create or replace function headroom.value_counts(tbl regclass, col text) returns jsonb
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
	num smallint := (headroom._columns(tbl, array[col]))[1];
	t oid := (select a.atttypid from pg_attribute a where a.attrelid = tbl and a.attnum = num);
	key text := 'v::text';
	result jsonb;
begin
	if t in ('timestamptz'::regtype, 'timestamp'::regtype, 'date'::regtype) then
		key := 'to_jsonb(v) #>> ''{}''';
	end if;
	-- EXECUTE, and not a static query, may be shared out over processes.
	if headroom._groupable(t) then
		execute format('select jsonb_object_agg(h.k, h.n) from (select %s as k, sum(g.n)::bigint as n
			from (select %I as v, count(*) as n from %s group by 1) g where v is distinct from null group by 1) h', key, col, tbl) into result;
	else
		execute format('select jsonb_object_agg(h.k, h.n) from (select %I::text as k, count(*) as n from %s where %1$I is distinct from null group by 1) h', col, tbl) into result;
	end if;
	return coalesce(result, '{}');
end $$;
comment on function headroom.value_counts(regclass, text) is 'How often each value of a table''s column occurs: {"value": count}; NULLs are skipped, {} for none. As fast as GROUP BY, and in parallel as it is';
