select k.conname, k.oid, k.conindid, pg_get_constraintdef(k.oid), k.convalidated,
       coalesce(obj_description(k.oid, 'pg_constraint'), ''), k.confrelid::regclass::text,
       array(select a.attname::text from unnest(k.conkey) with ordinality u(n, o) join pg_attribute a on a.attrelid = k.conrelid and a.attnum = u.n order by u.o),
       array(select a.attname::text from unnest(k.confkey) with ordinality u(n, o) join pg_attribute a on a.attrelid = k.confrelid and a.attnum = u.n order by u.o),
       k.confrelid = k.conrelid,
       case when k.coninhcount > 0 or k.conparentid <> 0 then 'it is inherited'
            when coalesce((to_jsonb(k) ->> 'conenforced')::boolean, true) = false then 'it is not enforced and costs nothing'
            when (select relkind from pg_class where oid = k.confrelid) = 'p' then 'it refers to a partitioned table'
            when exists (select from pg_trigger t where t.tgconstraint = k.oid and t.tgenabled <> 'O') then 'its triggers are set in a way of their own'
            else '' end
  from pg_constraint k
 where k.conrelid = $1 and k.contype = 'f'
 order by k.conname
