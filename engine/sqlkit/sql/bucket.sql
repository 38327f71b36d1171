-- Buckets: what value_counts is given where single values are too many. All
-- bucket functions are single expressions that the planner puts in place of
-- the call; a width or bounds that make no sense fail when the query is
-- planned. Names are qualified, because a function that is to be put in place
-- cannot set its own search_path; and operator() binds all operators equally,
-- hence the parentheses.

create or replace function headroom._positive(width anyelement) returns anyelement
language plpgsql immutable strict parallel safe set search_path = pg_catalog, pg_temp as $$
begin
	if width > '0' then
		return width;
	end if;
	raise exception 'bucket: the width % is not above zero', width using errcode = 'invalid_parameter_value';
end $$;
comment on function headroom._positive(anyelement) is 'Internal: its argument, or an error if that is not above zero';

create or replace function headroom._ascending(bounds anyarray) returns anyarray
language plpgsql immutable strict parallel safe set search_path = pg_catalog, pg_temp as $$
begin
	if array_ndims(bounds) is distinct from 1 or array_lower(bounds, 1) <> 1 or array_position(bounds, null) is not null then
		raise exception 'bucket: the bounds % are not a list of values without NULL', bounds using errcode = 'invalid_parameter_value';
	end if;
	for i in 2 .. cardinality(bounds) loop
		-- width_bucket compares as the type's own order does.
		if width_bucket(bounds[i - 1], array[bounds[i]]) <> 0 then
			raise exception 'bucket: the bounds do not rise: % follows %', bounds[i], bounds[i - 1] using errcode = 'invalid_parameter_value';
		end if;
	end loop;
	return bounds;
end $$;
comment on function headroom._ascending(anyarray) is 'Internal: its argument, or an error if the values do not rise';

create or replace function headroom._months(width interval) returns integer
language plpgsql immutable strict parallel safe set search_path = pg_catalog, pg_temp as $$
declare
	m integer := extract(year from width) * 12 + extract(month from width);
begin
	if width <= '0' then
		raise exception 'bucket: the width % is not above zero', width using errcode = 'invalid_parameter_value';
	end if;
	if m <> 0 and justify_hours(width) - make_interval(months => m) <> '0' then
		raise exception 'bucket: the width % mixes months with days or hours', width
			using errcode = 'invalid_parameter_value', hint = 'Use months and years, or weeks, days, hours and shorter.';
	end if;
	return m;
end $$;
comment on function headroom._months(interval) is 'Internal: the months of a width, 0 if it has none; an error if it is no width';

create or replace function headroom._bucket_months(x timestamp, months integer, origin timestamp) returns timestamp
language plpgsql immutable strict parallel safe set search_path = pg_catalog, pg_temp as $$
declare
	k integer := floor(((extract(year from x) - extract(year from origin)) * 12 + extract(month from x) - extract(month from origin)) / months);
	low timestamp := origin + make_interval(months => k * months);
begin
	if low > x then -- earlier in its month than origin
		low := origin + make_interval(months => (k - 1) * months);
	end if;
	return low;
end $$;
comment on function headroom._bucket_months(timestamp, integer, timestamp) is 'Internal: headroom.bucket for widths in months';

create or replace function headroom.bucket(x integer, width integer, origin integer default 0) returns integer
language sql immutable parallel safe as $$
	select x operator(pg_catalog.-) ((((x operator(pg_catalog.-) origin) operator(pg_catalog.%) headroom._positive(width)) operator(pg_catalog.+) width) operator(pg_catalog.%) width)
$$;
comment on function headroom.bucket(integer, integer, integer) is 'The lower bound of the bucket of this width that holds x; buckets are counted from origin';

create or replace function headroom.bucket(x bigint, width bigint, origin bigint default 0) returns bigint
language sql immutable parallel safe as $$
	select x operator(pg_catalog.-) ((((x operator(pg_catalog.-) origin) operator(pg_catalog.%) headroom._positive(width)) operator(pg_catalog.+) width) operator(pg_catalog.%) width)
$$;
comment on function headroom.bucket(bigint, bigint, bigint) is 'The lower bound of the bucket of this width that holds x; buckets are counted from origin';

create or replace function headroom.bucket(x numeric, width numeric, origin numeric default 0) returns numeric
language sql immutable parallel safe as $$
	select coalesce(nullif(pg_catalog.trim_scale(x operator(pg_catalog.-) ((((x operator(pg_catalog.-) origin) operator(pg_catalog.%) headroom._positive(width)) operator(pg_catalog.+) width) operator(pg_catalog.%) width)), 'NaN'), x)
$$;
comment on function headroom.bucket(numeric, numeric, numeric) is 'The lower bound of the bucket of this width that holds x; buckets are counted from origin; NaN and infinity are buckets of their own';

create or replace function headroom.bucket(x double precision, width double precision, origin double precision default 0) returns double precision
language sql immutable parallel safe as $$
	select case when x operator(pg_catalog.=) 'NaN' or x operator(pg_catalog.=) 'Infinity' or x operator(pg_catalog.=) '-Infinity' then x
		else headroom.bucket(x::numeric, width::numeric, origin::numeric)::double precision end
$$;
comment on function headroom.bucket(double precision, double precision, double precision) is 'The lower bound of the bucket of this width that holds x, to 15 digits, so that 0.3 is in the bucket 0.3 of width 0.1';

create or replace function headroom.bucket(x timestamp, width interval, origin timestamp default null) returns timestamp
language sql immutable parallel safe as $$
	select case
		when not pg_catalog.isfinite(x) then x
		when headroom._months(width) operator(pg_catalog.>) 0
			then headroom._bucket_months(x, headroom._months(width), coalesce(origin, '2000-01-01 00:00:00'))
		else coalesce(origin, '2000-01-03 00:00:00') operator(pg_catalog.+) (width operator(pg_catalog.*) pg_catalog.floor(
			pg_catalog.round(pg_catalog.date_part('epoch', x operator(pg_catalog.-) coalesce(origin, '2000-01-03 00:00:00')) operator(pg_catalog.*) 1e6::double precision)
			operator(pg_catalog./) pg_catalog.round(pg_catalog.date_part('epoch', width) operator(pg_catalog.*) 1e6::double precision))) end
$$;
comment on function headroom.bucket(timestamp, interval, timestamp) is 'The start of the span of this width that holds x; spans are counted from a Monday or, if in months, from a January';

create or replace function headroom.bucket(x timestamptz, width interval, origin timestamptz default null) returns timestamptz
language sql stable parallel safe as $$
	select case
		when not pg_catalog.isfinite(x) then x
		when headroom._months(width) operator(pg_catalog.>) 0 or pg_catalog.date_part('day', width) operator(pg_catalog.>) 0::double precision
			then headroom.bucket(x::timestamp, width, origin::timestamp)::timestamptz
		else coalesce(origin, timestamp '2000-01-03 00:00:00'::timestamptz) operator(pg_catalog.+) (width operator(pg_catalog.*) pg_catalog.floor(
			pg_catalog.round(pg_catalog.date_part('epoch', x operator(pg_catalog.-) coalesce(origin, timestamp '2000-01-03 00:00:00'::timestamptz)) operator(pg_catalog.*) 1e6::double precision)
			operator(pg_catalog./) pg_catalog.round(pg_catalog.date_part('epoch', width) operator(pg_catalog.*) 1e6::double precision))) end
$$;
comment on function headroom.bucket(timestamptz, interval, timestamptz) is 'The start of the span of this width that holds x; days and longer follow the session''s time zone, hours and shorter are exact';

create or replace function headroom.bucket(x date, width interval, origin date default null) returns date
language sql immutable parallel safe as $$
	select headroom.bucket(x::timestamp, width, origin::timestamp)::date
$$;
comment on function headroom.bucket(date, interval, date) is 'The first day of the span of this width that holds x; spans are counted from a Monday or, if in months, from a January';

create or replace function headroom.bucket(x interval, width interval) returns interval
language sql immutable parallel safe as $$
	select width operator(pg_catalog.*) pg_catalog.floor(
		pg_catalog.round(pg_catalog.date_part('epoch', x) operator(pg_catalog.*) 1e6::double precision)
		operator(pg_catalog./) pg_catalog.round(pg_catalog.date_part('epoch', headroom._positive(width)) operator(pg_catalog.*) 1e6::double precision))
$$;
comment on function headroom.bucket(interval, interval) is 'The lower bound of the bucket of this width that holds x; a month counts as 30 days';

create or replace function headroom.bucket(x anycompatible, bounds anycompatiblearray) returns text
language sql stable parallel safe as $$
	select case when x is not null and bounds is not null then
		(case when pg_catalog.width_bucket(x, headroom._ascending(bounds)) operator(pg_catalog.=) 0 then '('
			else '[' operator(pg_catalog.||) bounds[pg_catalog.width_bucket(x, bounds)]::text end)
		operator(pg_catalog.||) ',' operator(pg_catalog.||) coalesce(bounds[pg_catalog.width_bucket(x, bounds) operator(pg_catalog.+) 1]::text, '') operator(pg_catalog.||) ')' end
$$;
comment on function headroom.bucket(anycompatible, anycompatiblearray) is 'The bucket between two neighbours of the rising bounds that holds x, written as a range: [18,65); what is below is (,18), what is above [65,)';
