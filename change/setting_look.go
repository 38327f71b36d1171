package change

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"headroom/fail"
	"headroom/host"
)

//go:embed setting.sql
var settingSQL string

//go:embed setting_file.sql
var settingFileSQL string

// held is what the server says about one setting.
type held struct {
	guc
	reset      string // in force for new sessions, in base units
	source     string
	pending    bool
	sourceFile *string
	stored     *string // in postgresql.auto.conf; nil: nothing
	below      *string // last line in the other files; nil: none
	exact      bool    // stored and below are known to the letter
	broken     string  // why the server does not read its files; "" if it does
}

func (s Setting) look(ctx context.Context, r host.Reader) (map[string]*held, error) {
	out := map[string]*held{}
	err := r.PG(ctx, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, settingSQL, s.names())
		if err != nil {
			return err
		}
		h := new(held)
		_, err = pgx.ForEachRow(rows, []any{&h.name, &h.known, &h.vartype, &h.unit, &h.context, &h.source,
			&h.low, &h.high, &h.choices, &h.boot, &h.reset, &h.pending, &h.sourceFile}, func() error {
			one := *h
			one.choices = slices.Clone(h.choices)
			out[h.name] = &one
			return nil
		})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", s.Object(), err)
	}
	err = readFiles(ctx, r, s.names(), out)
	var broken *brokenFiles
	if errors.Is(err, fail.ErrDenied) || errors.As(err, &broken) {
		err = guessFiles(out, err)
	}
	for _, h := range out {
		if broken != nil {
			h.broken = broken.Error()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read what postgresql.auto.conf holds for %s: %w", s.Object(), err)
	}
	return out, nil
}

// brokenFiles is a configuration that the server cannot parse: it then reads
// none of it, and does not say what postgresql.auto.conf holds.
type brokenFiles struct{ at string }

func (b *brokenFiles) Error() string { return "the server's configuration cannot be read: " + b.at }

const brokenSQL = `select f.sourcefile || ':' || f.sourceline || ': ' || f.error
	from pg_catalog.pg_file_settings f where f.name is null and f.sourcefile is not null and f.error is not null order by f.seqno limit 1`

// readFiles reads the configuration files' lines through pg_file_settings.
func readFiles(ctx context.Context, r host.Reader, names []string, out map[string]*held) error {
	return r.PG(ctx, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, settingFileSQL, names)
		if err != nil {
			return err
		}
		var name string
		var value *string
		var auto bool
		_, err = pgx.ForEachRow(rows, []any{&name, &value, &auto}, func() error {
			h, v := out[name], value
			if v == nil {
				return nil
			}
			kept := *v
			if auto {
				h.stored = &kept
			} else {
				h.below = &kept
			}
			return nil
		})
		if err != nil {
			return err
		}
		b := new(brokenFiles)
		err = tx.QueryRow(ctx, brokenSQL).Scan(&b.at)
		if err == nil {
			return b
		}
		if !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		for _, h := range out {
			h.exact = true
		}
		return nil
	})
}

// guessFiles tells what can be told without the right to read the files: a
// value that is in force and comes from postgresql.auto.conf stands there.
func guessFiles(out map[string]*held, denied error) error {
	for _, h := range out {
		switch {
		case h.source == "configuration file" && h.sourceFile == nil:
			return denied
		case h.pending && !errors.Is(denied, fail.ErrDenied):
			return denied
		case h.pending:
			// Not wrapped: the general hint about looking would not help.
			return fail.Hint(fmt.Errorf("%w: %s", fail.ErrDenied, denied),
				"connect as a superuser, or: GRANT SELECT ON pg_file_settings TO the user; GRANT EXECUTE ON FUNCTION pg_show_all_file_settings() TO the user")
		case h.source == "configuration file" && strings.HasSuffix(*h.sourceFile, "/postgresql.auto.conf"):
			v := h.shown(h.reset)
			h.stored = &v
		}
	}
	return nil
}

// effective is the value in force for new sessions. Where the server works a
// value out by itself (-1), that is what it is.
func (h *held) effective() string {
	if h.source == "override" && h.boot == "-1" {
		return "-1"
	}
	return h.shown(h.reset)
}

// above names what wins over postgresql.auto.conf, or "".
func (h *held) above() string {
	switch h.source {
	case "command line":
		return "set by the command line: ALTER SYSTEM cannot win"
	case "database", "user", "database user", "global":
		return "set for this " + strings.Replace(h.source, "database user", "role in this database", 1) + " by ALTER DATABASE or ALTER ROLE: ALTER SYSTEM cannot win here"
	case "client":
		return "set by our own connection (PGOPTIONS, ALTER SYSTEM cannot win there)"
	}
	return ""
}
