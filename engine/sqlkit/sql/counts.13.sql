-- Before PostgreSQL 14, array_append does not take anycompatible types.
create or replace function headroom._counts_13(vals anyarray) returns jsonb
language plpgsql stable parallel safe set search_path = pg_catalog, pg_temp as $$
begin
	return headroom._counts(vals);
end $$;
comment on function headroom._counts_13(anyarray) is 'Internal: the last step of headroom.value_counts';

create or replace aggregate headroom.value_counts(anyelement) (
	sfunc = pg_catalog.array_append, stype = anyarray,
	combinefunc = pg_catalog.array_cat,
	finalfunc = headroom._counts_13, finalfunc_modify = read_only,
	parallel = safe
);
comment on aggregate headroom.value_counts(anyelement) is 'How often each value occurs: {"value": count}; NULLs are skipped, {} for none';
