select coalesce(k.contype::text, ''), c.relname, i.indexrelid, coalesce(pg_get_constraintdef(k.oid), ''),
       pg_get_indexdef(i.indexrelid), m.amname, i.indisunique,
       coalesce(k.condeferrable, false), coalesce(k.condeferred, false), i.indisvalid and i.indisready,
       coalesce(obj_description(k.oid, 'pg_constraint'), ''), coalesce(obj_description(i.indexrelid, 'pg_class'), ''),
       coalesce(s.spcname, ''),
       coalesce((select jsonb_object_agg(a.attnum::text, a.attstattarget) from pg_attribute a
                  where a.attrelid = i.indexrelid and a.attstattarget >= 0), '{}'),
       i.indisclustered, i.indisreplident, case when c.relkind = 'i' then pg_relation_size(i.indexrelid) else 0 end,
       array(select pg_get_indexdef(i.indexrelid, n, false) from generate_series(1, i.indnkeyatts) n order by n),
       coalesce(pg_get_expr(i.indpred, i.indrelid), ''),
       coalesce((to_jsonb(i) ->> 'indnullsnotdistinct')::boolean, false),
       case when not i.indisvalid then 'it is not valid'
            when c.relispartition then 'it belongs to the index of the table that this is a partition of'
            when coalesce(k.coninhcount, 0) > 0 then 'its constraint is inherited'
            when exists (select from pg_depend d where d.objid = i.indexrelid and d.classid = 'pg_class'::regclass and d.deptype in ('e', 'x'))
                 then 'an extension owns it'
            else coalesce((select 'needed by ' || string_agg(pg_describe_object(d.classid, d.objid, d.objsubid), ', ' order by 1)
                   from (select distinct e.classid, e.objid, e.objsubid from pg_depend e
                          where (e.refclassid = 'pg_class'::regclass and e.refobjid = i.indexrelid
                                 or e.refclassid = 'pg_constraint'::regclass and e.refobjid = k.oid)
                            and e.deptype = 'n'
                            and not (e.classid = 'pg_constraint'::regclass and e.objid in
                                     (select f.oid from pg_constraint f where f.conrelid = i.indrelid and f.contype = 'f'))) d), '')
       end
  from pg_index i
  join pg_class c on c.oid = i.indexrelid
  join pg_am m on m.oid = c.relam
  left join pg_tablespace s on s.oid = c.reltablespace
  left join pg_constraint k on k.conindid = i.indexrelid and k.conrelid = i.indrelid and k.contype in ('p', 'u', 'x')
 where i.indrelid = $1
 order by c.relname
