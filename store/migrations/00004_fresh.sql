-- +goose Up
-- A function that is stable reads with the snapshot of the statement that calls
-- it, which may be from before a packing whose end it waited for: the hot table
-- is empty then, and the packed hours cannot be seen yet. A volatile one takes
-- its snapshot when it has the tables.
alter function headroom.series_points(bigint, timestamptz, timestamptz) volatile parallel restricted;
alter function headroom.series_minutes(bigint, timestamptz, timestamptz) parallel restricted;
alter function headroom.series_hours(bigint, timestamptz, timestamptz) parallel restricted;
alter function headroom.series_days(bigint, timestamptz, timestamptz) parallel restricted;
