package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"headroom/engine/sqlkit"
	"headroom/fail"
)

func (a *app) sql() *cobra.Command {
	c := &cobra.Command{
		Use:   "sql",
		Short: "Install, show or remove a kit of SQL functions in a database",
		Long: `A kit of functions in plain SQL and PL/pgSQL, in the schema headroom of one
database: counts per value in one row, distinct keys of an index without reading
the table, counters that many sessions add to, constraints for normal forms,
field names of documents that are checked. PostgreSQL 13 and newer; no
extension, no superuser: it takes CREATE on the database.

Installing and removing are one transaction each. Nothing that others made is
replaced, and removing takes only what was installed.`,
		Example: `  headroom sql install --db 'dbname=shop'
  headroom sql show
  headroom sql status
  headroom sql print --major 15
  headroom sql uninstall --cascade`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	for _, sub := range []*cobra.Command{a.sqlInstall(), a.sqlUninstall(), a.sqlStatus(), a.sqlShow(), a.sqlPrint()} {
		sub.Args = usageArgs(cobra.NoArgs)
		c.AddCommand(sub)
	}
	return c
}

// sqlVerb makes one verb that needs a connection.
func (a *app) sqlVerb(use, short, long string, run func(context.Context, *pgx.Conn) error) *cobra.Command {
	var m machine
	c := &cobra.Command{Use: use, Short: short, Long: long, RunE: func(c *cobra.Command, _ []string) error {
		h := m.open(a)
		defer h.Close()
		if err := h.Ping(c.Context()); err != nil { // says best why a server cannot be reached
			return err
		}
		conn, err := sqlkit.Open(c.Context(), m.db)
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close(context.WithoutCancel(c.Context())) }()
		return run(c.Context(), conn)
	}}
	c.Flags().StringVar(&m.db, "db", "", "the PostgreSQL server and database, as libpq takes it: URL, or keyword=value; default: PG* variables, then the local socket")
	return c
}

func (a *app) sqlInstall() *cobra.Command {
	return a.sqlVerb("install", "Install the functions, or bring older ones up to date",
		`Makes the functions in the schema headroom, in one transaction. Where an older
version is there, it is brought up to date in place; what was built on it stays.
headroom sql print shows the SQL that this runs.`,
		func(ctx context.Context, conn *pgx.Conn) error {
			d, err := sqlkit.Install(ctx, conn)
			if err != nil {
				return err
			}
			did := "installed"
			switch {
			case d.Nothing:
				fmt.Fprintf(a.out, "the SQL kit, version %d, is in database %s as it should be\n", d.After.Version, d.After.Database)
				return nil
			case d.Before.Version > 0:
				did = "brought up to date"
			}
			fmt.Fprintf(a.out, "%s the SQL kit, version %d, in schema %s of database %s: %d objects\n",
				did, d.After.Version, sqlkit.Schema, d.After.Database, len(d.After.Installed))
			return a.listSQL(d.After.Major)
		})
}

func (a *app) sqlUninstall() *cobra.Command {
	var cascade bool
	c := a.sqlVerb("uninstall", "Remove what install made, and nothing else",
		`Drops what install made, in one transaction. Where something of yours rests on
it (a view, an index, a constraint), it names that and changes nothing;
--cascade drops these, too. Tables of counters are yours and stay.`,
		func(ctx context.Context, conn *pgx.Conn) error {
			r, err := sqlkit.Uninstall(ctx, conn, cascade)
			if err != nil {
				return err
			}
			if r.Before.Version == 0 {
				fmt.Fprintf(a.out, "the SQL kit is not in database %s; nothing to do\n", r.Before.Database)
				return nil
			}
			schema := "the schema stays: others' objects are in it, or it was there before"
			if r.SchemaGone {
				schema = "and the schema"
			}
			fmt.Fprintf(a.out, "removed the SQL kit from database %s: %d objects; %s\n", r.Before.Database, len(r.Before.Installed), schema)
			if r.Before.Fields > 0 {
				fmt.Fprintf(a.out, "%d known fields of documents went with it\n", r.Before.Fields)
			}
			for _, d := range r.Before.Dependents {
				fmt.Fprintf(a.out, "dropped, too: %s\n", d.Object)
			}
			return nil
		})
	c.Flags().BoolVar(&cascade, "cascade", false, "drop what depends on it, too")
	return c
}

func (a *app) sqlStatus() *cobra.Command {
	return a.sqlVerb("status", "Say which version is installed, and whether it was altered",
		`Says which version of the kit the database has, what was altered or dropped since
it was installed, and what of yours depends on it. Changes nothing.`,
		func(ctx context.Context, conn *pgx.Conn) error {
			s, err := sqlkit.Look(ctx, conn)
			if err != nil {
				return err
			}
			if s.Version == 0 {
				fmt.Fprintf(a.out, "not installed in database %s (PostgreSQL %d); install it with: headroom sql install\n", s.Database, s.Major)
				return nil
			}
			state := "as this headroom would install it"
			if !s.Current {
				state = "not as this headroom would install it: run headroom sql install"
			}
			fmt.Fprintf(a.out, "version %d in database %s (PostgreSQL %d), since %s: %s\n", s.Version, s.Database, s.Major, s.InstalledAt.UTC().Format("2006-01-02 15:04 MST"), state)
			for _, x := range s.Missing {
				fmt.Fprintln(a.out, "missing:    "+x)
			}
			for _, x := range s.Changed {
				fmt.Fprintln(a.out, "altered:    "+x)
			}
			for _, d := range s.Dependents {
				fmt.Fprintf(a.out, "depends:    %s, on %s\n", d.Object, d.On)
			}
			if s.Fields > 0 {
				fmt.Fprintf(a.out, "known fields of documents: %d\n", s.Fields)
			}
			return nil
		})
}

// newestMajor is what is shown where no server is asked.
const newestMajor = 18

func (a *app) sqlShow() *cobra.Command {
	return &cobra.Command{Use: "show", Short: "List the functions with what they do; needs no server",
		RunE: func(*cobra.Command, []string) error { return a.listSQL(newestMajor) }}
}

func (a *app) sqlPrint() *cobra.Command {
	var major int
	c := &cobra.Command{Use: "print", Short: "Print the SQL that install runs; needs no server",
		Long: `Prints the functions' definitions as install runs them on a server of the given
major version, for reading or for your own migrations. Install also notes what
it made, which uninstall goes by.`,
		RunE: func(*cobra.Command, []string) error {
			text, err := sqlkit.SQL(major)
			if err != nil {
				return fail.With(err, fail.Usage)
			}
			fmt.Fprintf(a.out, "create schema if not exists headroom;\n\n%s", text)
			return nil
		}}
	c.Flags().IntVar(&major, "major", newestMajor, "major version of the server")
	return c
}

// listSQL prints the kit's functions for users.
func (a *app) listSQL(major int) error {
	objects, err := sqlkit.Objects(major)
	if err != nil {
		return err
	}
	for _, o := range objects {
		if !o.Internal() {
			fmt.Fprintf(a.out, "  %s\n      %s\n", strings.TrimPrefix(o.Identity, sqlkit.Schema+"."), o.Comment)
		}
	}
	return nil
}
