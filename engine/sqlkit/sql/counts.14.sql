-- From PostgreSQL 14 on, array_append takes anycompatible types.
create or replace aggregate headroom.value_counts(anycompatible) (
	sfunc = pg_catalog.array_append, stype = anycompatiblearray,
	combinefunc = pg_catalog.array_cat,
	finalfunc = headroom._counts, finalfunc_modify = read_only,
	parallel = safe
);
comment on aggregate headroom.value_counts(anycompatible) is 'How often each value occurs: {"value": count}; NULLs are skipped, {} for none';
