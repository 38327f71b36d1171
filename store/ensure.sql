create table if not exists headroom.store_hot_0 (seq bigint not null, series bigint[] not null, at bigint[] not null, value float8[] not null);
create table if not exists headroom.store_hot_1 (like headroom.store_hot_0);
alter table headroom.store_hot_0 alter series set storage external, alter at set storage external, alter value set storage external;
alter table headroom.store_hot_1 alter series set storage external, alter at set storage external, alter value set storage external;
