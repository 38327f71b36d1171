-- +goose Up
-- +goose StatementBegin
create function headroom._store_field(data bytea, pos integer) returns bigint
language sql immutable strict parallel safe set search_path = pg_catalog as $$
	select case when get_byte(data, pos) = 0 then 0 else
		('x' || lpad(encode(substring(data from pos + 2 for get_byte(data, pos)), 'hex'), 16,
			case when get_byte(data, pos + 1) > 127 then 'f' else '0' end))::bit(64)::bigint end
$$;
-- +goose StatementEnd
comment on function headroom._store_field(bytea, integer) is 'a whole number with its length before it';

-- +goose StatementBegin
create function headroom._store_ints(data bytea, n integer, pos integer default 0) returns bigint[]
language plpgsql immutable strict parallel safe set search_path = pg_catalog as $$
declare
	kind   integer := get_byte(data, pos) & 3;
	flat   boolean := get_byte(data, pos) & 4 > 0;
	signed boolean := get_byte(data, pos) & 8 > 0;
	p      integer := pos + 1;
	head   bigint[] := '{}';
	base   bigint;
	m      integer := n - kind;
	blocks integer := (m + 31) / 32;
	bits   varbit;
	d      bigint[];
begin
	for i in 1 .. kind loop
		head := head || headroom._store_field(data, p);
		p := p + 1 + get_byte(data, p);
	end loop;
	base := headroom._store_field(data, p);
	p := p + 1 + get_byte(data, p);
	if n = 0 then
		return '{}';
	end if;
	if flat then
		d := array_fill(base, array[m]);
	else
		bits := ('x' || encode(substring(data from p + blocks + 1), 'hex'))::varbit;
		select array_agg(base + case when signed then (u >> 1) # -(u & 1) else u end order by b, i)
		into d
		from (select b, i, case when w.wide = 0 then 0 else (substring(bits from w.start + i * w.wide + 1 for w.wide)::bit(64) >> (64 - w.wide))::bigint end as u
		from (select b, get_byte(data, p + b) as wide,
				32 * (sum(get_byte(data, p + b)) over (order by b) - get_byte(data, p + b))::integer as start
			from generate_series(0, blocks - 1) b) w,
			generate_series(0, least(32, m - 32 * w.b) - 1) i) x;
	end if;
	if kind = 2 then
		select head[1] || array_agg((head[1] + s)::bigint order by i) into d
		from (select i, sum(x) over (order by i) as s
			from (select i, sum(x) over (order by i) as x from unnest(head[2] || d) with ordinality u(x, i)) t) t;
	elsif kind = 1 then
		select array_agg(s::bigint order by i) into d
		from (select i, sum(x) over (order by i) as s from unnest(head[1] || d) with ordinality u(x, i)) t;
	end if;
	return d;
end
$$;
-- +goose StatementEnd
comment on function headroom._store_ints(bytea, integer, integer) is 'n packed whole numbers';

-- +goose StatementBegin
create function headroom._store_double(i bigint) returns float8
language sql immutable strict parallel safe set search_path = pg_catalog as $$
	select sign(i) * case when e = 0 then m * power(2::float8, -537) * power(2::float8, -537)
		else (1 + m / 4503599627370496::float8) * case when e > 2000 then power(2::float8, 1000) * power(2::float8, e - 2023) else power(2::float8, e - 1023) end end
	from (select (abs(i) >> 52)::integer as e, (abs(i) & 4503599627370495)::float8 as m) x
$$;
-- +goose StatementEnd
comment on function headroom._store_double(bigint) is 'a double from its bits';

-- +goose StatementBegin
create function headroom._store_floats(data bytea, n integer) returns float8[]
language plpgsql immutable strict parallel safe set search_path = pg_catalog as $$
declare
	g bigint;
	d float8;
begin
	if get_byte(data, 0) = 1 then
		return array(select headroom._store_double(x) from unnest(headroom._store_ints(data, n, 1)) with ordinality u(x, i) order by i);
	end if;
	g := headroom._store_field(data, 2);
	d := ('1e' || get_byte(data, 1))::float8;
	return array(select (x * g)::float8 / d from unnest(headroom._store_ints(data, n, 3 + get_byte(data, 2))) with ordinality u(x, i) order by i);
end
$$;
-- +goose StatementEnd
comment on function headroom._store_floats(bytea, integer) is 'n packed values';

-- +goose StatementBegin
create function headroom.sketch_quantile(sketch bytea, q float8) returns float8
language sql immutable strict parallel safe set search_path = pg_catalog as $$
	select case when k = 0 then 0 else sign(k) * 2 * exp((abs(k) - 20000) * ln(1.02 / 0.98::float8)) / (1 + 1.02 / 0.98::float8) end
	from (
		select k, sum(c) over (order by k) as upto, sum(c) over () as total
		from unnest(
			headroom._store_ints(sketch, get_byte(sketch, 0) * 256 + get_byte(sketch, 1), 4),
			headroom._store_ints(sketch, get_byte(sketch, 0) * 256 + get_byte(sketch, 1), 4 + get_byte(sketch, 2) * 256 + get_byte(sketch, 3))) u(k, c)) s
	where upto > floor(q * (total - 1)) order by k limit 1
$$;
-- +goose StatementEnd
comment on function headroom.sketch_quantile(bytea, double precision) is 'the value that a share q (0 to 1) of the points is not above, to within 2 % of itself';

-- +goose StatementBegin
create function headroom.series_points(id bigint, since timestamptz, until timestamptz) returns table (at timestamptz, value float8)
language sql stable parallel safe rows 5000 set search_path = pg_catalog as $$
	select r.at + u.t * interval '1 ms', u.v
	from headroom.store_raw r, unnest(headroom._store_ints(r.times, r.n), headroom._store_floats(r.vals, r.n)) u(t, v)
	where r.series = id and r.at >= since - interval '1 hour' and r.at < until
		and r.at + u.t * interval '1 ms' >= since and r.at + u.t * interval '1 ms' < until
	union all
	(select distinct on (x.at) timestamptz 'epoch' + x.at * interval '1 ms', x.value
	from (select h.seq, u.* from (select * from headroom.store_hot_0 union all select * from headroom.store_hot_1) h,
		rows from (unnest(h.series, h.at, h.value)) with ordinality u(series, at, value, place)) x
	where x.series = id and timestamptz 'epoch' + x.at * interval '1 ms' >= since and timestamptz 'epoch' + x.at * interval '1 ms' < until
	order by x.at, x.seq desc, x.place desc)
$$;
-- +goose StatementEnd
comment on function headroom.series_points(bigint, timestamptz, timestamptz) is 'points of one series from since to before until';

create view headroom.point as
	select r.series, r.at + u.t * interval '1 ms' as at, u.v as value
	from headroom.store_raw r, unnest(headroom._store_ints(r.times, r.n), headroom._store_floats(r.vals, r.n)) u(t, v)
	union all
	(select distinct on (u.series, timestamptz 'epoch' + u.at * interval '1 ms') u.series, timestamptz 'epoch' + u.at * interval '1 ms', u.value
	from (select * from headroom.store_hot_0 union all select * from headroom.store_hot_1) h,
		rows from (unnest(h.series, h.at, h.value)) with ordinality u(series, at, value, place)
	order by u.series, timestamptz 'epoch' + u.at * interval '1 ms', h.seq desc, u.place desc);
comment on view headroom.point is 'All points that are kept; a condition on series is fast, one on at reads all: use headroom.series_points for a span';

-- +goose StatementBegin
create function headroom._store_buckets(day date, width interval, n integer, slots bytea, counts bytea, sums bytea, mins bytea, maxs bytea, lasts bytea, firsts bytea, incs bytea)
returns table (at timestamptz, count bigint, sum float8, min float8, max float8, last float8, first float8, increase float8)
language sql immutable parallel safe set search_path = pg_catalog as $$
	select day::timestamp at time zone 'UTC' + u.slot * width, u.c, coalesce(u.s, u.l), coalesce(u.lo, u.l), coalesce(u.hi, u.l), u.l,
		coalesce(u.f, u.lo, u.l), case when f.counter then coalesce(u.inc, u.l - coalesce(u.f, u.lo, u.l)) end
	from unnest(headroom._store_ints(slots, n), headroom._store_ints(counts, n), headroom._store_floats(sums, n), headroom._store_floats(mins, n),
			headroom._store_floats(maxs, n), headroom._store_floats(lasts, n), headroom._store_floats(nullif(firsts, ''), n), headroom._store_floats(nullif(incs, ''), n)) u(slot, c, s, lo, hi, l, f, inc),
		(select firsts is not null as counter) f
$$;
-- +goose StatementEnd
comment on function headroom._store_buckets(date, interval, integer, bytea, bytea, bytea, bytea, bytea, bytea, bytea, bytea) is 'packed minutes or hours of one day';

create view headroom.minute as
	select m.series, m.day, b.at, b.count, b.sum, b.min, b.max, b.last, b.increase
	from headroom.store_minute m, headroom._store_buckets(m.day, interval '1 minute', m.n, m.slots, m.counts, m.sums, m.mins, m.maxs, m.lasts, m.firsts, m.incs) b
	union all
	select s.id, o.day, o.at, o.count, o.sum, o.min, o.max, o.last, case when s.name ~ '_(total|bucket)$' then o.rise end
	from headroom.series s, lateral (
		select day, at, count(*) as count, sum(value) as sum, min(value) as min, max(value) as max, (array_agg(value order by t desc))[1] as last, max(t) as last_at,
			coalesce(sum(rise), 0) as rise
		from (
			select t::date as day, date_trunc('minute', t) at time zone 'UTC' as at, p.at as t, p.value,
				case when p.value >= lag(p.value) over w then p.value - lag(p.value) over w when lag(p.value) over w is not null then p.value end as rise
			from (select at, at at time zone 'UTC' as t, value from headroom.series_points(s.id, (select coalesce(rolled::timestamp at time zone 'UTC', '-infinity') from headroom.store_state), 'infinity')) p
			where not exists (select from headroom.store_minute m where m.series = s.id and m.day = p.t::date)
			window w as (partition by date_trunc('minute', t) order by p.at)
		) q
		group by day, at
	) o;
comment on view headroom.minute is 'Minutes: packed where the day is over, else made of the points. series = a number is fast, a join reads all: use the function for that. increase: of counters, within the minute';

create view headroom.hour as
	select h.series, h.day, b.at, b.count, b.sum, b.min, b.max, b.last, b.increase,
		coalesce(headroom.sketch_quantile(h.sketches[b.i], 0.5), case when b.min = b.max then b.min end) as p50,
		coalesce(headroom.sketch_quantile(h.sketches[b.i], 0.95), case when b.min = b.max then b.min end) as p95,
		coalesce(headroom.sketch_quantile(h.sketches[b.i], 0.99), case when b.min = b.max then b.min end) as p99
	from headroom.store_hour h,
		rows from (headroom._store_buckets(h.day, interval '1 hour', h.n, h.slots, h.counts, h.sums, h.mins, h.maxs, h.lasts, h.firsts, h.incs))
			with ordinality b(at, count, sum, min, max, last, first, increase, i)
	union all
	select s.id, o.day, o.at, o.count, o.sum, o.min, o.max, o.last, case when s.name ~ '_(total|bucket)$' then o.rise end, case when s.name !~ '_(total|bucket)$' then o.p50 end, case when s.name !~ '_(total|bucket)$' then o.p95 end, case when s.name !~ '_(total|bucket)$' then o.p99 end
	from headroom.series s, lateral (
		select day, at, count(*) as count, sum(value) as sum, min(value) as min, max(value) as max, (array_agg(value order by t desc))[1] as last, max(t) as last_at,
			coalesce(sum(rise), 0) as rise, percentile_disc(0.5) within group (order by value) as p50, percentile_disc(0.95) within group (order by value) as p95, percentile_disc(0.99) within group (order by value) as p99
		from (
			select t::date as day, date_trunc('hour', t) at time zone 'UTC' as at, p.at as t, p.value,
				case when p.value >= lag(p.value) over w then p.value - lag(p.value) over w when lag(p.value) over w is not null then p.value end as rise
			from (select at, at at time zone 'UTC' as t, value from headroom.series_points(s.id, (select coalesce(rolled::timestamp at time zone 'UTC', '-infinity') from headroom.store_state), 'infinity')) p
			where not exists (select from headroom.store_hour m where m.series = s.id and m.day = p.t::date)
			window w as (partition by date_trunc('hour', t) order by p.at)
		) q
		group by day, at
	) o;
comment on view headroom.hour is 'Hours: packed where the day is over, else made of the points. series = a number is fast, a join reads all: use the function for that. Quantiles are of gauges, to within 2 % where packed';

create view headroom.day as
	select series, day, day::timestamp at time zone 'UTC' as at, count, sum, min, max, last, last_at, increase,
		coalesce(headroom.sketch_quantile(sketch, 0.5), case when min = max then min end) as p50,
		coalesce(headroom.sketch_quantile(sketch, 0.95), case when min = max then min end) as p95,
		coalesce(headroom.sketch_quantile(sketch, 0.99), case when min = max then min end) as p99
	from headroom.store_day
	union all
	select s.id, o.day, o.at, o.count, o.sum, o.min, o.max, o.last, o.last_at, case when s.name ~ '_(total|bucket)$' then o.rise end, case when s.name !~ '_(total|bucket)$' then o.p50 end, case when s.name !~ '_(total|bucket)$' then o.p95 end, case when s.name !~ '_(total|bucket)$' then o.p99 end
	from headroom.series s, lateral (
		select day, at, count(*) as count, sum(value) as sum, min(value) as min, max(value) as max, (array_agg(value order by t desc))[1] as last, max(t) as last_at,
			coalesce(sum(rise), 0) as rise, percentile_disc(0.5) within group (order by value) as p50, percentile_disc(0.95) within group (order by value) as p95, percentile_disc(0.99) within group (order by value) as p99
		from (
			select t::date as day, date_trunc('day', t) at time zone 'UTC' as at, p.at as t, p.value,
				case when p.value >= lag(p.value) over w then p.value - lag(p.value) over w when lag(p.value) over w is not null then p.value end as rise
			from (select at, at at time zone 'UTC' as t, value from headroom.series_points(s.id, (select coalesce(rolled::timestamp at time zone 'UTC', '-infinity') from headroom.store_state), 'infinity')) p
			where not exists (select from headroom.store_day m where m.series = s.id and m.day = p.t::date)
			window w as (partition by date_trunc('day', t) order by p.at)
		) q
		group by day, at
	) o;
comment on view headroom.day is 'Days (UTC): rolled up where they are over, else made of the points so far. Quantiles are of gauges, to within 2 % where rolled up';

-- +goose StatementBegin
create function headroom.series_minutes(id bigint, since timestamptz, until timestamptz) returns table (at timestamptz, count bigint, sum float8, min float8, max float8, last float8, increase float8)
language sql stable parallel safe rows 1000 set search_path = pg_catalog set timezone = 'UTC' as $$
	select at, count, sum, min, max, last, increase from headroom.minute where series = id and day >= since::date and day <= until::date and at >= since and at < until
$$;
-- +goose StatementEnd
comment on function headroom.series_minutes(bigint, timestamptz, timestamptz) is 'minutes of one series that begin from since to before until';

-- +goose StatementBegin
create function headroom.series_hours(id bigint, since timestamptz, until timestamptz) returns table (at timestamptz, count bigint, sum float8, min float8, max float8, last float8, increase float8, p50 float8, p95 float8, p99 float8)
language sql stable parallel safe rows 1000 set search_path = pg_catalog set timezone = 'UTC' as $$
	select at, count, sum, min, max, last, increase, p50, p95, p99 from headroom.hour where series = id and day >= since::date and day <= until::date and at >= since and at < until
$$;
-- +goose StatementEnd
comment on function headroom.series_hours(bigint, timestamptz, timestamptz) is 'hours of one series that begin from since to before until';

-- +goose StatementBegin
create function headroom.series_days(id bigint, since timestamptz, until timestamptz) returns table (at timestamptz, count bigint, sum float8, min float8, max float8, last float8, increase float8, p50 float8, p95 float8, p99 float8)
language sql stable parallel safe rows 1000 set search_path = pg_catalog set timezone = 'UTC' as $$
	select at, count, sum, min, max, last, increase, p50, p95, p99 from headroom.day where series = id and day >= since::date and day <= until::date and at >= since and at < until
$$;
-- +goose StatementEnd
comment on function headroom.series_days(bigint, timestamptz, timestamptz) is 'days of one series that begin from since to before until';

create view headroom.mark as select at, kind, host, key, text, link from headroom.store_mark;
comment on view headroom.mark is 'What happened: changes, trials, restarts, gaps';

create view headroom.finding as select host, at, body from headroom.store_finding;
comment on view headroom.finding is 'Findings by host, each time they changed';
