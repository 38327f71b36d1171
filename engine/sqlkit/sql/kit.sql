-- What is installed: one row in headroom.kit, and one row in headroom.kit_object
-- for each object, so that uninstalling removes these and nothing else.

create table if not exists headroom.kit (
	only_one       boolean primary key default true check (only_one),
	version        integer not null,
	digest         text not null,
	created_schema boolean not null,
	installed_at   timestamptz not null default pg_catalog.now()
);
comment on table headroom.kit is 'The SQL kit of Headroom: which version is installed. Remove it with: headroom sql uninstall';

create table if not exists headroom.kit_object (
	kind     text not null,
	identity text not null,
	digest   text not null,
	primary key (kind, identity)
);
comment on table headroom.kit_object is 'Every object that the SQL kit made, and what it looked like then';
grant select on headroom.kit, headroom.kit_object to public;
