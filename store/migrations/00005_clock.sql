-- +goose Up
alter table headroom.store_state add column clock timestamptz, add column doubted float8;
comment on column headroom.store_state.clock is 'The clock that days end and retention counts by; not the machine''s while that has jumped ahead';
comment on column headroom.store_state.doubted is 'For how many seconds of running the machine''s clock has been ahead of it; null: it is not';
