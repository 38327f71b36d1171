-- +goose Up
create table headroom.store_told (
	host text not null,
	kind text not null,
	at   timestamptz not null,
	body jsonb not null,
	primary key (host, kind)
);
comment on table headroom.store_told is 'What other hosts told of themselves last: targets, gaps, findings; at is when';
