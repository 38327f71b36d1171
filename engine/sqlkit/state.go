package sqlkit

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Status is what a database has of the kit.
type Status struct {
	Database    string
	Major       int       // of the server
	Schema      bool      // the schema headroom is there
	Version     int       // of the installed kit; 0: none
	Current     bool      // it is exactly what this program would install
	InstalledAt time.Time // or last upgraded
	Installed   []Object  // identities as the server writes them
	Missing     []string  // installed once, gone since
	Changed     []string  // altered by somebody else since
	Dependents  []Dependent
	Fields      int64 // declared fields of documents, which go with the kit

	digest        string
	createdSchema bool
}

// Dependent is an object of somebody else that rests on one of the kit's.
// Functions whose bodies merely mention the kit are not known to the server.
type Dependent struct{ Object, On string }

// Look reads the state of the kit. It changes nothing.
func Look(ctx context.Context, conn *pgx.Conn) (Status, error) {
	var s Status
	err := inTx(ctx, conn, "look at the SQL kit", false, func(tx pgx.Tx) error {
		var err error
		s, err = look(ctx, tx)
		return err
	})
	return s, err
}

func look(ctx context.Context, tx pgx.Tx) (Status, error) {
	var s Status
	var number int
	var kit bool
	err := tx.QueryRow(ctx, `select current_database(), current_setting('server_version_num')::int,
		exists (select from pg_namespace where nspname = 'headroom'),
		exists (select from pg_class c where c.oid = to_regclass('headroom.kit') and obj_description(c.oid, 'pg_class') like 'The SQL kit of Headroom%')`).
		Scan(&s.Database, &number, &s.Schema, &kit)
	if err != nil {
		return s, err
	}
	s.Major = number / 10000
	if !kit {
		return s, nil
	}
	err = tx.QueryRow(ctx, "select version, digest, created_schema, installed_at from headroom.kit").Scan(&s.Version, &s.digest, &s.createdSchema, &s.InstalledAt)
	if err != nil {
		return s, err
	}
	if err := s.readObjects(ctx, tx); err != nil {
		return s, err
	}
	text, err := SQL(s.Major)
	s.Current = err == nil && s.Version == Version && s.digest == digest(text) && len(s.Missing)+len(s.Changed) == 0
	if err := tx.QueryRow(ctx, "select to_regclass('headroom.json_field') is not null").Scan(&kit); err != nil {
		return s, err
	}
	if kit {
		if err := tx.QueryRow(ctx, "select count(*) from headroom.json_field").Scan(&s.Fields); err != nil {
			return s, err
		}
	}
	s.Dependents, err = dependents(ctx, tx)
	return s, err
}

// present is the state of objects: kind, identity and oid from $1 and $2, and
// a digest of what makes the object what it is, or NULL for one that is gone.
const present = `with o as (
		select kind, identity, case kind when 'table' then to_regclass(identity)::oid else to_regprocedure(identity)::oid end as oid
		from unnest($1::text[], $2::text[]) u(kind, identity))
	select o.kind, case o.kind when 'table' then o.identity else coalesce(p.oid::regprocedure::text, o.identity) end,
		md5(case o.kind
			when 'table' then (select string_agg(a.attname || ' ' || format_type(a.atttypid, a.atttypmod), ',' order by a.attnum)
				from pg_attribute a where a.attrelid = o.oid and a.attnum > 0 and not a.attisdropped)
			when 'aggregate' then (select concat_ws(' ', g.aggtransfn::regproc, g.aggfinalfn::regproc, g.aggcombinefn::regproc, format_type(g.aggtranstype, null), g.agginitval, p.proparallel)
				from pg_aggregate g where g.aggfnoid = p.oid)
			else case when p.oid is not null then concat_ws(' ', p.prosrc, p.provolatile, p.proparallel, p.prosecdef, p.proisstrict, p.proretset, format_type(p.prorettype, null), p.proconfig, pg_get_function_arguments(p.oid)) end end)
	from o left join pg_proc p on o.kind <> 'table' and p.oid = o.oid
	order by 1, 2`

func (s *Status) readObjects(ctx context.Context, tx pgx.Tx) error {
	rows, err := tx.Query(ctx, "select kind, identity, digest from headroom.kit_object order by 1, 2")
	if err != nil {
		return err
	}
	var kinds, ids []string
	was := map[string]string{}
	var kind, id, sum string
	if _, err := pgx.ForEachRow(rows, []any{&kind, &id, &sum}, func() error {
		kinds, ids = append(kinds, kind), append(ids, id)
		was[id] = sum
		return nil
	}); err != nil {
		return err
	}
	rows, err = tx.Query(ctx, present, kinds, ids)
	if err != nil {
		return err
	}
	var now *string
	_, err = pgx.ForEachRow(rows, []any{&kind, &id, &now}, func() error {
		switch {
		case now == nil:
			s.Missing = append(s.Missing, kind+" "+id)
			return nil
		case *now != was[id]:
			s.Changed = append(s.Changed, kind+" "+id)
		}
		s.Installed = append(s.Installed, Object{Kind: kind, Identity: id})
		return nil
	})
	return err
}

// dependents lists what others built on the kit.
func dependents(ctx context.Context, tx pgx.Tx) ([]Dependent, error) {
	rows, err := tx.Query(ctx, `with ours as (
			select 'pg_proc'::regclass as classid, to_regprocedure(identity)::oid as objid from headroom.kit_object where kind <> 'table'
			union all select 'pg_class'::regclass, to_regclass(identity)::oid from headroom.kit_object where kind = 'table'
			union all select 'pg_type'::regclass, t.oid from headroom.kit_object k join pg_type t on t.typrelid = to_regclass(k.identity)::oid where k.kind = 'table'),
		tables as (select objid from ours where classid = 'pg_class'::regclass),
		found as (
			select distinct d.classid, d.objid, d.objsubid, d.refclassid, d.refobjid from pg_depend d join ours o on d.refclassid = o.classid and d.refobjid = o.objid
			where d.deptype in ('n', 'a') and (d.classid, d.objid) not in (select classid, objid from ours where objid is not null)
				and not (d.classid = 'pg_constraint'::regclass and exists (select from pg_constraint c where c.oid = d.objid and c.conrelid in (select objid from tables)))
				and not (d.classid = 'pg_trigger'::regclass and exists (select from pg_trigger t where t.oid = d.objid and t.tgrelid in (select objid from tables)))
				and not (d.classid = 'pg_attrdef'::regclass and exists (select from pg_attrdef a where a.oid = d.objid and a.adrelid in (select objid from tables)))
				and not (d.classid = 'pg_class'::regclass and exists (select from pg_index i where i.indexrelid = d.objid and i.indrelid in (select objid from tables))))
		select distinct coalesce((select pg_describe_object('pg_class'::regclass, r.ev_class, 0) from pg_rewrite r where f.classid = 'pg_rewrite'::regclass and r.oid = f.objid),
			pg_describe_object(f.classid, f.objid, f.objsubid)), pg_describe_object(f.refclassid, f.refobjid, 0)
		from found f order by 1, 2`)
	if err != nil {
		return nil, err
	}
	out, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Dependent])
	if err != nil {
		return nil, fmt.Errorf("find what depends on the kit: %w", err)
	}
	return out, nil
}
