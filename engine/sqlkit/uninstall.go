package sqlkit

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"headroom/fail"
)

// Removed says what Uninstall did.
type Removed struct {
	Before     Status
	SchemaGone bool // the schema is gone, too: the kit had made it, and it was empty
}

// Uninstall drops what Install made and nothing else, in one transaction. The
// schema goes if the kit made it and nothing else is in it. Where others'
// objects rest on the kit it refuses and names them; with cascade they go,
// too. Before.Version is 0 if there was nothing to remove.
func Uninstall(ctx context.Context, conn *pgx.Conn, cascade bool) (Removed, error) {
	var r Removed
	err := inTx(ctx, conn, "uninstall the SQL kit", true, func(tx pgx.Tx) error {
		var err error
		if r.Before, err = look(ctx, tx); err != nil || r.Before.Version == 0 {
			return err
		}
		if err := refuse(r.Before.Dependents, cascade); err != nil {
			return err
		}
		how := ""
		if cascade {
			how = " cascade"
		}
		if err := drop(ctx, tx, r.Before.Installed, how, func(Object) bool { return true }); err != nil {
			return err
		}
		return dropSchema(ctx, tx, &r)
	})
	return r, err
}

func refuse(ds []Dependent, cascade bool) error {
	if len(ds) == 0 || cascade {
		return nil
	}
	var list []string
	for _, d := range ds[:min(len(ds), 10)] {
		list = append(list, fmt.Sprintf("%s (on %s)", d.Object, d.On))
	}
	if more := len(ds) - len(list); more > 0 {
		list = append(list, fmt.Sprintf("and %d more", more))
	}
	return fail.Hint(fmt.Errorf("others depend on it: %s", strings.Join(list, ", ")),
		"change or drop these first, or drop them with it: headroom sql uninstall --cascade")
}

// drop drops the chosen objects, each kind in one statement, so that they may
// rest on each other.
func drop(ctx context.Context, tx pgx.Tx, objects []Object, how string, chosen func(Object) bool) error {
	for _, kind := range []string{"aggregate", "procedure", "table", "function"} {
		var ids []string
		for _, o := range objects {
			if o.Kind == kind && chosen(o) {
				ids = append(ids, o.Identity)
			}
		}
		if len(ids) == 0 {
			continue
		}
		// Identities come from the server's own regprocedure and are quoted.
		if _, err := tx.Exec(ctx, "drop "+kind+" "+strings.Join(ids, ", ")+how, pgx.QueryExecModeSimpleProtocol); err != nil {
			return fmt.Errorf("drop the %ss: %w", kind, err)
		}
	}
	return nil
}

func dropSchema(ctx context.Context, tx pgx.Tx, r *Removed) error {
	if !r.Before.createdSchema {
		return nil
	}
	var empty bool
	err := tx.QueryRow(ctx, `select not exists (select from pg_depend where refclassid = 'pg_namespace'::regclass and refobjid = n.oid and deptype in ('n', 'a'))
		from pg_namespace n where n.nspname = 'headroom'`).Scan(&empty)
	if err != nil {
		return fmt.Errorf("look into the schema: %w", err)
	}
	if !empty {
		return nil
	}
	if _, err := tx.Exec(ctx, "drop schema headroom"); err != nil {
		return fmt.Errorf("drop the schema: %w", err)
	}
	r.SchemaGone = true
	return nil
}
