package sqlkit

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"headroom/fail"
)

// Done says what Install did.
type Done struct {
	Before, After Status
	Nothing       bool // it was there as it should be
}

// Install makes the kit, or brings one that is there up to this version, in
// one transaction: afterwards all of it is there, or on error nothing has
// changed. A second Install does nothing. Errors: an object of the same name
// that is not the kit's; a newer kit; a missing right.
func Install(ctx context.Context, conn *pgx.Conn) (Done, error) {
	var d Done
	err := inTx(ctx, conn, "install the SQL kit", true, func(tx pgx.Tx) error {
		var err error
		if d.Before, err = look(ctx, tx); err != nil {
			return err
		}
		if d.Before.Current {
			d.Nothing, d.After = true, d.Before
			return nil
		}
		if d.Before.Version > Version {
			return fail.Hint(fmt.Errorf("version %d is installed, and this program brings version %d", d.Before.Version, Version), "use a newer headroom")
		}
		if err := install(ctx, tx, d.Before); err != nil {
			return err
		}
		d.After, err = look(ctx, tx)
		return err
	})
	return d, err
}

func install(ctx context.Context, tx pgx.Tx, before Status) error {
	text, err := SQL(before.Major)
	if err != nil {
		return err
	}
	objects, err := Objects(before.Major)
	if err != nil {
		return err
	}
	if err := foreign(ctx, tx, before, objects); err != nil {
		return err
	}
	if !before.Schema {
		if _, err := tx.Exec(ctx, "create schema headroom"); err != nil {
			return fmt.Errorf("make the schema %s: %w", Schema, err)
		}
		if _, err := tx.Exec(ctx, "comment on schema headroom is 'Of Headroom: its SQL kit, and tables that it keeps'"); err != nil {
			return fmt.Errorf("make the schema %s: %w", Schema, err)
		}
	}
	if err := run(ctx, tx, text, before); err != nil {
		return err
	}
	if err := register(ctx, tx, text, before, objects); err != nil {
		return fmt.Errorf("write down what was installed: %w", err)
	}
	return grant(ctx, tx, objects)
}

// run makes the objects. Where an older function returned something else, it
// cannot be replaced: then the old ones are dropped first.
func run(ctx context.Context, tx pgx.Tx, text string, before Status) error {
	sub, err := tx.Begin(ctx)
	if err != nil {
		return err
	}
	if _, err = sub.Exec(ctx, text, pgx.QueryExecModeSimpleProtocol); err == nil {
		return sub.Commit(ctx)
	}
	if rerr := sub.Rollback(ctx); rerr != nil {
		return errors.Join(where(err, text), rerr)
	}
	if code(err) != "42P13" || before.Version == 0 { // invalid_function_definition
		return where(err, text)
	}
	if err := refuse(before.Dependents, false); err != nil {
		return err
	}
	droppable := func(o Object) bool { // a trigger's function is held by our own table, and always returns trigger
		return o.Kind != "table" && o.Identity != "headroom._json_field_owner()"
	}
	if err := drop(ctx, tx, before.Installed, "", droppable); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, text, pgx.QueryExecModeSimpleProtocol); err != nil {
		return where(err, text)
	}
	return nil
}

func code(err error) string {
	var pe *pgconn.PgError
	if errors.As(err, &pe) {
		return pe.Code
	}
	return ""
}

// where names the object that an error of the script is about.
func where(err error, text string) error {
	var pe *pgconn.PgError
	if !errors.As(err, &pe) || pe.Position <= 0 {
		return err
	}
	runes := []rune(text)
	head := string(runes[:min(int(pe.Position), len(runes))])
	if i := strings.LastIndex(head, "\ncreate "); i >= 0 {
		line, _, _ := strings.Cut(head[i+1:], "\n")
		return fmt.Errorf("%s: %w", line, err)
	}
	return err
}

// foreign refuses where an object of the same name was made by somebody else.
func foreign(ctx context.Context, tx pgx.Tx, before Status, objects []Object) error {
	own := []string{}
	for _, o := range before.Installed {
		own = append(own, o.Identity)
	}
	rows, err := tx.Query(ctx, `select pg_describe_object('pg_proc'::regclass, p.oid, 0) from pg_proc p
			where p.pronamespace = to_regnamespace('headroom') and p.proname = any ($1) and p.oid::regprocedure::text <> all ($2)
		union all select pg_describe_object('pg_class'::regclass, c.oid, 0) from pg_class c
			where c.relnamespace = to_regnamespace('headroom') and c.relname = any ($1) and c.oid::regclass::text <> all ($2)
		order by 1`, names(objects), own)
	if err != nil {
		return err
	}
	found, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	if len(found) > 0 {
		return fail.Hint(fmt.Errorf("the schema %s holds objects of the same name that it did not make: %s", Schema, strings.Join(found, ", ")),
			"rename them, or move them to another schema: ALTER … SET SCHEMA")
	}
	return nil
}

// register writes down the objects and drops those of an older version that
// this one does not have.
func register(ctx context.Context, tx pgx.Tx, text string, before Status, objects []Object) error {
	var kinds, ids []string
	for _, o := range objects {
		kinds, ids = append(kinds, o.Kind), append(ids, o.Identity)
	}
	if _, err := tx.Exec(ctx, "delete from headroom.kit_object"); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, "insert into headroom.kit_object (kind, identity, digest) "+present, kinds, ids); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, `insert into headroom.kit (version, digest, created_schema) values ($1, $2, $3)
		on conflict (only_one) do update set version = excluded.version, digest = excluded.digest, installed_at = now()`,
		Version, digest(text), !before.Schema); err != nil {
		return err
	}
	rows, err := tx.Query(ctx, "select identity from headroom.kit_object")
	if err != nil {
		return err
	}
	now, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	kept := map[string]bool{}
	for _, id := range now {
		kept[id] = true
	}
	return drop(ctx, tx, before.Installed, "", func(o Object) bool { return !kept[o.Identity] })
}

// grant lets everybody use the kit, whatever ALTER DEFAULT PRIVILEGES says.
// Where the schema is another role's, that role decides.
func grant(ctx context.Context, tx pgx.Tx, objects []Object) error {
	var own bool
	if err := tx.QueryRow(ctx, "select pg_has_role(nspowner, 'usage') from pg_namespace where nspname = 'headroom'").Scan(&own); err != nil {
		return err
	}
	var b strings.Builder
	if own {
		b.WriteString("grant usage on schema headroom to public;")
	}
	for _, o := range objects {
		if o.Kind != "table" {
			fmt.Fprintf(&b, "grant execute on routine %s to public;", o.Identity)
		}
	}
	if _, err := tx.Exec(ctx, b.String(), pgx.QueryExecModeSimpleProtocol); err != nil {
		return fmt.Errorf("let everybody use it: %w", err)
	}
	return nil
}
