-- +goose Up
-- A function that is stable reads with the snapshot of the statement that calls
-- it, which may be from before a packing whose end it waited for: the hot table
-- is empty then, and the packed hours cannot be seen yet. A volatile one takes
-- its snapshot when it has the tables.
-- A row of a hot table holds points of thousands of series: those without this
-- one are passed over whole.
-- +goose StatementBegin
create or replace function headroom.series_points(id bigint, since timestamptz, until timestamptz) returns table (at timestamptz, value float8)
language sql volatile parallel restricted rows 5000 set search_path = pg_catalog as $$
	select r.at + u.t * interval '1 ms', u.v
	from headroom.store_raw r, unnest(headroom._store_ints(r.times, r.n), headroom._store_floats(r.vals, r.n)) u(t, v)
	where r.series = id and r.at >= since - interval '1 hour' and r.at < until
		and r.at + u.t * interval '1 ms' >= since and r.at + u.t * interval '1 ms' < until
	union all
	(select distinct on (x.at) timestamptz 'epoch' + x.at * interval '1 ms', x.value
	from (select h.seq, u.* from (select * from headroom.store_hot_0 union all select * from headroom.store_hot_1) h,
		rows from (unnest(h.series, h.at, h.value)) with ordinality u(series, at, value, place) where id = any(h.series)) x
	where x.series = id and timestamptz 'epoch' + x.at * interval '1 ms' >= since and timestamptz 'epoch' + x.at * interval '1 ms' < until
	order by x.at, x.seq desc, x.place desc)
$$;
-- +goose StatementEnd
alter function headroom.series_minutes(bigint, timestamptz, timestamptz) parallel restricted;
alter function headroom.series_hours(bigint, timestamptz, timestamptz) parallel restricted;
alter function headroom.series_days(bigint, timestamptz, timestamptz) parallel restricted;
