-- +goose Up
create table headroom.series (
	id     bigint primary key,
	name   text collate "C" not null,
	labels jsonb not null,
	key    text collate "C" not null,
	first  timestamptz not null
);
create index series_name on headroom.series (name, id);
comment on table headroom.series is 'Series of Headroom''s store: id is the first 63 bits of the key''s SHA-256; first is the time of the earliest point';

create table headroom.store_hot_0 (seq bigint not null, series bigint[] not null, at bigint[] not null, value float8[] not null);
create table headroom.store_hot_1 (like headroom.store_hot_0);
comment on table headroom.store_hot_0 is 'Points of the present hour as they were written, one row for up to 4096 points; emptied in turns with store_hot_1';
comment on table headroom.store_hot_1 is 'Points of the present hour as they were written, one row for up to 4096 points; emptied in turns with store_hot_0';

create table headroom.store_raw (
	series bigint not null,
	at     timestamptz not null,
	n      integer not null,
	times  bytea not null,
	vals   bytea not null,
	primary key (series, at)
) partition by range (at);
comment on table headroom.store_raw is 'Points packed by series and hour: at is the time of the first of n; see the view headroom.point';

create table headroom.store_minute (
	series  bigint not null,
	day     date not null,
	n       integer not null,
	slots   bytea not null,
	counts  bytea not null,
	sums    bytea,
	mins    bytea,
	maxs    bytea,
	lasts   bytea not null,
	firsts  bytea,
	incs    bytea,
	primary key (series, day)
) partition by range (day);
comment on table headroom.store_minute is 'Minutes packed by series and day; see the view headroom.minute';

create table headroom.store_hour (
	series   bigint not null,
	day      date not null,
	n        integer not null,
	slots    bytea not null,
	counts   bytea not null,
	sums     bytea,
	mins     bytea,
	maxs     bytea,
	lasts    bytea not null,
	firsts   bytea,
	incs     bytea,
	sketches bytea[],
	primary key (series, day)
) partition by range (day);
comment on table headroom.store_hour is 'Hours packed by series and day; see the view headroom.hour';

create table headroom.store_day (
	series   bigint not null,
	day      date not null,
	count    bigint not null,
	sum      float8 not null,
	min      float8 not null,
	max      float8 not null,
	last     float8 not null,
	last_at  timestamptz not null,
	first    float8,
	increase float8,
	sketch   bytea,
	primary key (series, day)
) partition by range (day);
comment on table headroom.store_day is 'Days; see the view headroom.day';

create table headroom.store_batch (
	id uuid not null,
	at timestamptz not null default now(),
	primary key (id, at)
) partition by range (at);
comment on table headroom.store_batch is 'Batches that were stored, so that none is stored twice; at is when';

create table headroom.store_hour_packed (hour timestamptz primary key);
comment on table headroom.store_hour_packed is 'Hours of which store_raw holds points';

create table headroom.store_dirty (series bigint not null, day date not null, primary key (series, day));
comment on table headroom.store_dirty is 'Days whose minutes, hours and day wait to be made anew because points came late';

create table headroom.store_state (
	one         boolean primary key default true check (one),
	epoch       bigint not null default 0,
	holder      text not null default '',
	pid         integer not null default 0,
	since       timestamptz not null default now(),
	rolled      date,
	slice       integer not null default 0,
	raw_from    date,
	minute_from date,
	hour_from   date,
	day_from    date
);
insert into headroom.store_state default values;
comment on table headroom.store_state is 'Who writes into the store; days before rolled have minutes, hours and days; days before x_from were dropped';

create table headroom.store_mark (
	kind text not null,
	host text not null,
	key  text not null,
	at   timestamptz not null,
	text text not null,
	link text not null,
	primary key (kind, host, key)
);
create index store_mark_at on headroom.store_mark (at);
comment on table headroom.store_mark is 'What happened: changes, trials, restarts, gaps; drawn on every chart';

create table headroom.store_finding (
	host text not null,
	at   timestamptz not null,
	body jsonb not null,
	primary key (host, at)
);
comment on table headroom.store_finding is 'Findings by host; a new row where they differ from those before';
