-- Distinct leading columns of an index, by a loose index scan: one descent of
-- the index for each distinct key, however many rows share it.
--
-- _distinct finds the index and writes the query's parts; a batch runs them
-- for some keys; distinct_keys and distinct_rows ask for batch after batch.
-- They are single SELECTs that the planner puts in place of the call, so that
-- rows stream. A batch is full after 2048 keys or a moment, whichever comes
-- first: so the first row comes at once even from a slow disk.

create or replace function headroom._distinct(tbl regclass, columns text[],
	out names text[], out first text, out step text, out nulls text, out cols text, out casts text, out texts text, out pairs text)
language plpgsql stable set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
declare
	rel record;
	n integer := cardinality(columns);
	idx record;
	c record;
	a text[]; -- the columns as expressions, with the index's collation
	after text[]; equal text[]; ordering text[]; nullable boolean[]; nulls_first boolean[];
	target text;
	head text;
	tail text;
	branches text[] := '{}';
begin
	select k.relkind, k.relkind = 'r' and exists (select from pg_inherits where inhparent = tbl) as parent,
		array(select t.attnum from unnest(columns) u(x) join pg_attribute t on t.attrelid = tbl and t.attname = x and t.attnum > 0 and not t.attisdropped order by 1) as nums
	into rel from pg_class k where k.oid = tbl;
	if n is null or n = 0 or array_ndims(columns) <> 1 then
		raise exception 'distinct keys of %: no column named', tbl using errcode = 'invalid_parameter_value',
			hint = 'Write: select * from headroom.distinct_keys(''table'', ''column'').';
	elsif rel.relkind is null or rel.relkind not in ('r', 'p', 'm') then
		raise exception 'distinct keys of %: it is not a table', tbl using errcode = 'wrong_object_type', hint = 'Name the table that has the index.';
	elsif rel.parent then
		raise exception 'distinct keys of %: other tables inherit from it, and no index holds the rows of all', tbl
			using errcode = 'feature_not_supported', hint = 'Ask each table, and take the union.';
	elsif cardinality(rel.nums) <> n or cardinality(array(select distinct x from unnest(columns) x)) <> n then
		perform headroom._columns(tbl, columns);
	end if;
	select i.indexrelid, i.indkey, i.indclass, i.indoption, i.indcollation into idx
	from pg_index i join pg_class x on x.oid = i.indexrelid join pg_am m on m.oid = x.relam
	where i.indrelid = tbl and m.amname = 'btree' and i.indisvalid and i.indisready and i.indpred is null and i.indnkeyatts >= n
		and array(select k from unnest((i.indkey::int2[])[0:n - 1]) k order by 1) = rel.nums
		and not exists ( -- a collation under which other values are equal than under the column's own
			select from generate_series(0, n - 1) s
			join pg_attribute t on t.attrelid = tbl and t.attnum = i.indkey[s] and t.attcollation <> i.indcollation[s]
			join pg_collation ci on ci.oid = i.indcollation[s] join pg_collation ct on ct.oid = t.attcollation
			where not (ci.collisdeterministic and ct.collisdeterministic))
	order by i.indnkeyatts, x.relpages, x.oid limit 1;
	if idx is null then
		raise exception 'distinct keys of %: no index begins with %', tbl, (select string_agg(quote_ident(k), ', ') from unnest(columns) k)
			using errcode = 'undefined_object', detail = 'It must be a valid btree index of whole columns, without a WHERE clause.',
			hint = format('Make one: CREATE INDEX CONCURRENTLY ON %s (%s);', tbl, (select string_agg(quote_ident(k), ', ') from unnest(columns) k));
	end if;
	for c in
		select s + 1 as j, t.attname, format_type(t.atttypid, t.atttypmod) as typ, not t.attnotnull as nullable,
			(idx.indoption[s] & 1) = 1 as down, (idx.indoption[s] & 2) = 2 as nfirst,
			max(format('operator(%I.%s)', n.nspname, p.oprname)) filter (where m.amopstrategy = 1) as less,
			max(format('operator(%I.%s)', n.nspname, p.oprname)) filter (where m.amopstrategy = 3) as equal,
			max(format('operator(%I.%s)', n.nspname, p.oprname)) filter (where m.amopstrategy = 5) as greater,
			case when idx.indcollation[s] <> t.attcollation then (select format(' collate %I.%I', cn.nspname, ci.collname)
				from pg_collation ci join pg_namespace cn on cn.oid = ci.collnamespace where ci.oid = idx.indcollation[s]) end as coll
		from generate_series(0, n - 1) s
		join pg_attribute t on t.attrelid = tbl and t.attnum = idx.indkey[s]
		join pg_opclass o on o.oid = idx.indclass[s]
		join pg_amop m on m.amopfamily = o.opcfamily and m.amoplefttype = o.opcintype and m.amoprighttype = o.opcintype
		join pg_operator p on p.oid = m.amopopr join pg_namespace n on n.oid = p.oprnamespace
		group by s, t.attname, t.atttypid, t.atttypmod, t.attnotnull, t.attcollation order by s
	loop
		names[c.j] := c.attname;
		cols := concat_ws(', ', cols, 'x.c' || c.j);
		casts := concat_ws(', ', casts, format('($1)[%s]::%s as c%1$s', c.j, c.typ));
		texts := concat_ws(', ', texts, format('k.c%s::text', c.j));
		pairs := concat_ws(', ', pairs, format('%L, c%s', c.attname, c.j));
		a[c.j] := format('t.%I%s', c.attname, c.coll);
		after[c.j] := case when c.down then c.less else c.greater end;
		equal[c.j] := c.equal;
		ordering[c.j] := format('%s using %s nulls %s', a[c.j], case when c.down then c.greater else c.less end, case when c.nfirst then 'first' else 'last' end);
		nullable[c.j] := c.nullable;
		nulls_first[c.j] := c.nfirst;
		target := concat_ws(', ', target, format('t.%I as c%s', c.attname, c.j));
	end loop;
	head := format('select %s from %s t', target, tbl);
	tail := format(' order by %s limit 1', array_to_string(ordering, ', '));
	first := head || tail;
	if n = 1 then
		-- The NULLs are asked for once, which keeps the step short.
		step := format('%s where %s %s k.c1%s', head, a[1], after[1], tail);
		if nullable[1] then
			first := format('%s where %s is not null%s', head, a[1], tail);
			nulls := case when nulls_first[1] then 'first' else 'last' end;
		end if;
	elsif not true = any (nullable) and after[1] = all (after) then
		step := format('%s where (%s) %s (%s)%s', head, array_to_string(a, ', '), after[1],
			(select string_agg('k.c' || i, ', ' order by i) from generate_series(1, n) i), tail);
	elsif cardinality(array_remove(nullable, false)) > 5 then
		raise exception 'distinct keys of %: more than five of the columns can be NULL', tbl using errcode = 'feature_not_supported',
			hint = 'Declare them NOT NULL where they are, or name fewer.';
	else
		for j in reverse n .. 1 loop
			branches := branches || headroom._distinct_level(j, a, equal, after, nullable, nulls_first, head || ' where ', tail);
		end loop;
		step := '(' || array_to_string(branches, ') union all (') || ') limit 1';
	end if;
end $$;
comment on function headroom._distinct(regclass, text[]) is 'Internal: the parts of a loose index scan over the columns: the first key, the key after k, where the NULL is, and lists of the columns';

create or replace function headroom._distinct_level(j integer, a text[], equal text[], after text[], nullable boolean[], nulls_first boolean[], head text, tail text)
returns text[] language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
-- The queries for the next key that has columns 1 to j-1 in common with k. A
-- column that can be NULL doubles them: "= NULL" finds nothing.
declare
	prefixes text[] := '{""}';
	p text;
	out text[] := '{}';
begin
	for i in 1 .. j - 1 loop
		select array_agg(x || y) into prefixes from unnest(prefixes) x,
			unnest(case when nullable[i] then array[
				format('%s %s k.c%s and ', a[i], equal[i], i),
				format('%s is null and k.c%s is null and ', a[i], i)]
			else array[format('%s %s k.c%s and ', a[i], equal[i], i)] end) y;
	end loop;
	foreach p in array prefixes loop
		out := out || (head || p || format('%s %s k.c%s', a[j], after[j], j) || tail);
		if nullable[j] and nulls_first[j] then
			out := out || (head || p || format('%s is not null and k.c%s is null', a[j], j) || tail);
		elsif nullable[j] then
			out := out || (head || p || format('%s is null and k.c%s is not null', a[j], j) || tail);
		end if;
	end loop;
	return out;
end $$;
comment on function headroom._distinct_level(integer, text[], text[], text[], boolean[], boolean[], text, text) is 'Internal: part of headroom._distinct';

create or replace function headroom._columns(tbl regclass, columns text[]) returns smallint[]
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
	nums smallint[] := '{}';
	num smallint;
	name text;
begin
	foreach name in array columns loop
		select attnum into num from pg_attribute where attrelid = tbl and attname = name and attnum > 0 and not attisdropped;
		if num is null then
			raise exception 'table % has no column %', tbl, coalesce(quote_ident(name), 'NULL')
				using errcode = 'undefined_column',
				hint = headroom._meant(name, (select array_agg(attname::text order by attnum) from pg_attribute where attrelid = tbl and attnum > 0 and not attisdropped));
		elsif num = any (nums) then
			raise exception 'column % is named twice', quote_ident(name) using errcode = 'duplicate_column';
		end if;
		nums := nums || num;
	end loop;
	return nums;
end $$;
comment on function headroom._columns(regclass, text[]) is 'Internal: the numbers of columns, which must be there';

create or replace function headroom._meant(word text, known text[]) returns text
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
declare
	k text;
	best text;
	least integer := greatest(2, length(left(word, 63)) / 3) + 1;
	d integer;
begin
	if cardinality(known) <= 2000 then
		foreach k in array known loop
			d := headroom._distance(lower(left(word, 63)), lower(left(k, 63)), least);
			if d < least then
				least := d;
				best := k;
			end if;
		end loop;
	end if;
	if best is not null then
		return format('Did you mean %s?', quote_ident(best));
	end if;
	return 'There are: ' || coalesce(left(array_to_string(known[1:30], ', '), 1000), 'none')
		|| case when cardinality(known) > 30 then format(' and %s more', cardinality(known) - 30) else '' end || '.';
end $$;
comment on function headroom._meant(text, text[]) is 'Internal: a hint at what was meant by an unknown word';

create or replace function headroom._distance(a text, b text, limit_ integer) returns integer
language plpgsql immutable strict set search_path = pg_catalog, pg_temp as $$
-- Letters to insert, delete, replace or swap with their neighbour.
declare
	x text[] := string_to_array(a, null);
	y text[] := string_to_array(b, null);
	m integer := cardinality(x);
	n integer := cardinality(y);
	older integer[]; prev integer[]; cur integer[];
	d integer;
begin
	if abs(m - n) >= limit_ then
		return limit_;
	end if;
	select array_agg(i order by i) into prev from generate_series(0, n) i;
	for i in 1 .. m loop
		cur := array[i];
		for j in 1 .. n loop
			d := least(prev[j + 1] + 1, cur[j] + 1, prev[j] + case when x[i] = y[j] then 0 else 1 end);
			if i > 1 and j > 1 and x[i] = y[j - 1] and x[i - 1] = y[j] then
				d := least(d, older[j - 1] + 1);
			end if;
			cur := cur || d;
		end loop;
		older := prev;
		prev := cur;
	end loop;
	return prev[n + 1];
end $$;
comment on function headroom._distance(text, text, integer) is 'Internal: how many typing errors are between two words';

create or replace function headroom._distinct_texts(tbl regclass, columns text[], proto regtype, out first text, out step text, out names text[])
language plpgsql stable set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
-- The queries of the first batch and of one after it: $1 is the key before it,
-- $2 how many keys, $3 until when. They return the keys, and the last one as
-- texts if there may be more.
declare
	p record := headroom._distinct(tbl, columns);
	result text := format('jsonb_build_object(%s)', p.pairs);
	batch text := 'with recursive k as ((select %1$s, 1 as n from (%2$s) x) union all
			select %1$s, k.n + 1 from k cross join lateral (%3$s) x where k.n < $2 and clock_timestamp() < $3),
		m as materialized (select count(*) as n, count(*) >= $2 or count(*) > 0 and clock_timestamp() >= $3 as more from k)
		select (select array_agg(%4$s) from (%6$s) s), case when m.more then (select array[%5$s] from k where k.n = m.n) end from m';
	null_key text := format('select t.%I as c1, 0 from %s t where t.%1$I is null', p.names[1], tbl);
	rest text := 'table k' || case p.nulls when 'last' then format(' union all (%s and not m.more limit 1)', null_key) else '' end;
begin
	names := p.names;
	if proto is not null then
		result := (select format('row(%s)::%s', string_agg(coalesce('c' || array_position(p.names, a.attname::text), 'null'), ', ' order by a.attnum), tbl)
			from pg_attribute a where a.attrelid = tbl and a.attnum > 0 and not a.attisdropped);
	end if;
	step := format(batch, p.cols, format('select %s from (select %s) k cross join lateral (%s) x', p.cols, p.casts, p.step), p.step, result, p.texts, rest);
	if p.nulls is null then
		first := format('select array[%s], array[%s] from (%s) k', result, p.texts, p.first);
	else
		first := format(batch, p.cols, p.first, p.step, result, p.texts,
			case p.nulls when 'first' then format('(%s limit 1) union all ', null_key) else '' end || rest);
	end if;
end $$;
comment on function headroom._distinct_texts(regclass, text[], regtype) is 'Internal: the queries of the batches of distinct keys';

create or replace function headroom._distinct_keys_first(tbl regclass, columns text[], out keys jsonb[], out last text[], out step text)
language plpgsql stable
set search_path = pg_catalog, pg_temp set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set jit = off
set extra_float_digits = 3 set datestyle = 'iso, ymd' set intervalstyle = 'postgres' set bytea_output = 'hex' as $$
declare
	t record := headroom._distinct_texts(tbl, columns, null);
begin
	step := t.step;
	execute t.first into keys, last using null::text[], 1, 'infinity'::timestamptz;
end $$;
comment on function headroom._distinct_keys_first(regclass, text[]) is 'Internal: the first key of headroom.distinct_keys, and the query for more';

create or replace function headroom._distinct_keys(step text, after text[], size integer, patience interval, out keys jsonb[], out last text[])
language plpgsql stable
set search_path = pg_catalog, pg_temp set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set jit = off
set extra_float_digits = 3 set datestyle = 'iso, ymd' set intervalstyle = 'postgres' set bytea_output = 'hex' as $$
begin
	execute step into keys, last using after, size, clock_timestamp() + patience;
end $$;
comment on function headroom._distinct_keys(text, text[], integer, interval) is 'Internal: a batch of headroom.distinct_keys';

create or replace function headroom._distinct_rows_first(proto anyelement, columns text[], out keys anyarray, out last text[], out step text)
language plpgsql stable
set search_path = pg_catalog, pg_temp set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set jit = off
set extra_float_digits = 3 set datestyle = 'iso, ymd' set intervalstyle = 'postgres' set bytea_output = 'hex' as $$
declare
	tbl regclass := (select c.oid from pg_type t join pg_class c on c.oid = t.typrelid and c.relkind <> 'c' where t.oid = pg_typeof(proto));
	t record;
begin
	if tbl is null then
		raise exception 'distinct rows: % is not the row type of a table', pg_typeof(proto) using errcode = 'wrong_object_type',
			hint = 'Write: select * from headroom.distinct_rows(null::TABLE, ''column'').';
	end if;
	t := headroom._distinct_texts(tbl, columns, pg_typeof(proto));
	step := t.step;
	execute t.first into keys, last using null::text[], 1, 'infinity'::timestamptz;
end $$;
comment on function headroom._distinct_rows_first(anyelement, text[]) is 'Internal: the first key of headroom.distinct_rows, and the query for more';

create or replace function headroom._distinct_rows(proto anyelement, step text, after text[], size integer, patience interval, out keys anyarray, out last text[])
language plpgsql stable
set search_path = pg_catalog, pg_temp set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set jit = off
set extra_float_digits = 3 set datestyle = 'iso, ymd' set intervalstyle = 'postgres' set bytea_output = 'hex' as $$
begin
	execute step into keys, last using after, size, clock_timestamp() + patience;
end $$;
comment on function headroom._distinct_rows(anyelement, text, text[], integer, interval) is 'Internal: a batch of headroom.distinct_rows';

create or replace function headroom.distinct_keys(tbl regclass, variadic columns text[]) returns setof jsonb
language sql stable rows 1000 as $$
	with recursive b as (
		select x.keys, x.last, x.step from headroom._distinct_keys_first(tbl, columns) x
		union all
		select x.keys, x.last, b.step from b cross join lateral headroom._distinct_keys(b.step, b.last, 2048, '200 ms') x where b.last is not null
	)
	select pg_catalog.unnest(b.keys) from b
$$;
comment on function headroom.distinct_keys(regclass, text[]) is 'The distinct values of columns that an index begins with, one {"column": value} each, in the order of the index, read by a loose index scan and streamed';

create or replace function headroom.distinct_rows(proto anyelement, variadic columns text[]) returns setof anyelement
language sql stable rows 1000 as $$
	with recursive b as (
		select x.keys, x.last, x.step from headroom._distinct_rows_first(proto, columns) x
		union all
		select x.keys, x.last, b.step from b cross join lateral headroom._distinct_rows(proto, b.step, b.last, 2048, '200 ms') x where b.last is not null
	)
	select (s.r).* from (select pg_catalog.unnest(b.keys) as r from b) s
$$;
comment on function headroom.distinct_rows(anyelement, text[]) is 'As headroom.distinct_keys, as rows of the table''s own type: distinct_rows(null::TABLE, ''column''); columns that were not asked for are NULL';

create or replace function headroom.distinct_after(tbl regclass, last jsonb, size integer, variadic columns text[]) returns setof jsonb
language plpgsql stable rows 1000
set search_path = pg_catalog, pg_temp set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set jit = off
set extra_float_digits = 3 set datestyle = 'iso, ymd' set intervalstyle = 'postgres' set bytea_output = 'hex' as $$
declare
	t record := headroom._distinct_texts(tbl, columns, null);
	keys jsonb[];
	after text[];
	name text;
	val text;
begin
	if size is null or size < 1 then
		raise exception 'distinct keys of %: % keys asked for', tbl, coalesce(size::text, 'NULL') using errcode = 'invalid_parameter_value', hint = 'Ask for 1 or more.';
	end if;
	if last is not null then
		foreach name in array t.names loop
			if not coalesce(last ? name, false) then
				raise exception 'distinct keys of %: the last key does not tell column %', tbl, quote_ident(name) using errcode = 'invalid_parameter_value',
					hint = 'Give the last key as it was returned, or NULL to begin.';
			end if;
			execute format('select (jsonb_populate_record(null::%s, $1)).%I::text', tbl, name) into val using last;
			after := after || val;
		end loop;
	end if;
	if last is null or cardinality(after) = 1 and after[1] is null then
		-- To begin, or to go on after the one NULL: nothing does if NULLs are last.
		execute t.first into keys, after using null::text[], 1, 'infinity'::timestamptz;
		if last is not null and keys[1] is distinct from last then
			return;
		end if;
		keys := keys[case when last is null then 1 else 2 end:];
		keys := keys[:size];
		return query select unnest(keys);
		size := size - coalesce(cardinality(keys), 0);
	end if;
	if size > 0 and after is not null then
		execute t.step into keys, after using after, size, 'infinity'::timestamptz;
		return query select unnest(keys);
	end if;
end $$;
comment on function headroom.distinct_after(regclass, jsonb, integer, text[]) is 'The next keys of headroom.distinct_keys after one that it returned, or the first for NULL: page by page, with nothing kept between calls';

create or replace function headroom.distinct_query(tbl regclass, variadic columns text[]) returns text
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
	p record := headroom._distinct(tbl, columns);
	nulls text := format('(select t.%I as c1 from %s t where t.%1$I is null limit 1)', p.names[1], tbl);
begin
	return format('with recursive k as ((%s) union all select %s from k cross join lateral (%s) x) select %s from (%stable k%s) k', p.first, p.cols, p.step,
		(select string_agg(format('c%s as %I', i, x), ', ' order by i) from unnest(p.names) with ordinality u(x, i)),
		case p.nulls when 'first' then nulls || ' union all ' end, case p.nulls when 'last' then ' union all ' || nulls end);
end $$;
comment on function headroom.distinct_query(regclass, text[]) is 'The text of the query that lists the distinct values of columns that an index begins with, for a cursor, a view or a program';

create or replace function headroom.distinct_cursor(cur refcursor, tbl regclass, variadic columns text[]) returns refcursor
language plpgsql set search_path = pg_catalog, pg_temp set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set jit = off as $$
begin
	open cur no scroll for execute headroom.distinct_query(tbl, variadic columns);
	return cur;
end $$;
comment on function headroom.distinct_cursor(refcursor, regclass, text[]) is 'Opens a cursor of that name over headroom.distinct_query, in a transaction: FETCH takes keys as they are found';
