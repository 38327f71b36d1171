package pg

import (
	"context"

	"github.com/jackc/pgx/v5"

	"headroom/fact"
)

// Extension is one that can be or is installed in the database.
type Extension struct {
	Name      string `json:"name" src:"pg_available_extensions" doc:"its name"`
	Installed string `json:"installed,omitempty" src:"pg_available_extensions installed_version" doc:"version in this database; empty if it is not installed"`
	Default   string `json:"default,omitempty" src:"pg_available_extensions default_version" doc:"version that CREATE EXTENSION would install"`
}

// Extensions is the fact "pg.extensions".
var Extensions = &fact.Source[[]Extension]{
	Name: "pg.extensions", Doc: "extensions installed in this database, and those that could be",
	Read: func(ctx context.Context, in *fact.In) ([]Extension, error) {
		var out []Extension
		err := look(ctx, in, "read the extensions", func(ctx context.Context, tx pgx.Tx) error {
			rows, err := tx.Query(ctx, `select name::text, coalesce(installed_version, ''), coalesce(default_version, '')
				from pg_catalog.pg_available_extensions order by 1`)
			if err != nil {
				return err
			}
			out, err = pgx.CollectRows(rows, pgx.RowToStructByPos[Extension])
			return err
		})
		return out, err
	},
}

// Statement is whether the server counts what its statements cost. The
// statements themselves are never read.
type Statement struct {
	Available bool             `json:"available" src:"pg_available_extensions" doc:"pg_stat_statements lies on the server's disk"`
	Installed bool             `json:"installed" src:"pg_extension" doc:"it is installed in this database"`
	Loaded    fact.Opt[bool]   `json:"loaded" src:"shared_preload_libraries" doc:"it is loaded at server start, without which it counts nothing"`
	Preload   fact.Opt[string] `json:"preload" src:"shared_preload_libraries" doc:"all libraries loaded at server start"`
}

// Statements is the fact "pg.statements".
var Statements = &fact.Source[Statement]{
	Name: "pg.statements", Doc: "whether pg_stat_statements is there, installed and loaded",
	Read: readStatements,
}

func readStatements(ctx context.Context, in *fact.In) (Statement, error) {
	c, err := fact.From(ctx, in, Settings)
	if err != nil {
		return Statement{}, err
	}
	list, err := fact.From(ctx, in, Extensions)
	if err != nil {
		return Statement{}, err
	}
	var out Statement
	for _, e := range list {
		if e.Name == "pg_stat_statements" {
			out.Available, out.Installed = true, e.Installed != ""
		}
	}
	// The module's own setting shows to every role that it is loaded.
	_, seen := c.All["pg_stat_statements.max"]
	out.Loaded = fact.Known(seen)
	why := c.Why("shared_preload_libraries")
	if out.Preload = fact.Known(c.Text("shared_preload_libraries")); why != "" {
		out.Preload = fact.Unknown[string](why)
	}
	return out, nil
}
