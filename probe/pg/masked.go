package pg

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"headroom/unit"
)

// overrides names what sets a setting for sessions such as ours and hides the
// server's own value, or "". What every connection sets for itself does not
// count: nobody asks for the server's.
func overrides(name, source string) string {
	switch source {
	case "user", "database user":
		return "ALTER ROLE"
	case "database":
		return "ALTER DATABASE"
	case "global":
		return "ALTER ROLE ALL"
	case "client":
		if name != "application_name" && name != "client_encoding" {
			return "our connection's options"
		}
	}
	return ""
}

// unmask puts the server's own values in the place of those that hold for our
// sessions only: what the configuration files say, else what is built in. It
// takes a superuser to tell; otherwise Masked says why it cannot be told.
func unmask(ctx context.Context, tx pgx.Tx, srv Server, all map[string]Setting) error {
	var arguments string
	inFile := map[string]Setting{}
	if srv.Superuser {
		sql, err := statement("files", srv.Major)
		if err != nil {
			return err
		}
		rows, err := tx.Query(ctx, sql)
		if err != nil {
			return err
		}
		var name string
		var s Setting
		if _, err := pgx.ForEachRow(rows, []any{&name, &s.Value, &s.File, &s.Line, &arguments}, func() error {
			inFile[name] = s
			return nil
		}); err != nil {
			return err
		}
	}
	for name, s := range all {
		by := overrides(name, s.Source)
		if by == "" {
			continue
		}
		given := strings.Contains(strings.ReplaceAll(strings.ToLower(arguments), "-", "_"), strings.ToLower(name))
		file, found := inFile[name]
		own, ok := s.Boot, true
		if found {
			own, ok = s.normal(file.Value)
		}
		if !srv.Superuser || given || !ok {
			s.Masked = fmt.Sprintf("setting %s is set to %s for role %s in database %s by %s; what the server has for others cannot be told (connect as a role that has no settings of its own)",
				name, shortened(name, s), Quote(srv.User), Quote(srv.Database), by)
		} else {
			s.Value, s.File, s.Line, s.Source = own, file.File, file.Line, "default"
			if found {
				s.Source = "configuration file"
			}
		}
		all[name] = s
	}
	return nil
}

func shortened(name string, s Setting) string {
	return fmt.Sprintf("%.40s", strconv.Quote(finish(name, s).Value))
}

// normal writes a value from a configuration file as pg_settings would; ok is
// false if it cannot be read.
func (s Setting) normal(text string) (value string, ok bool) {
	switch s.Type {
	case "bool":
		switch strings.ToLower(text) {
		case "on", "true", "yes", "1", "t", "y":
			return "on", true
		case "off", "false", "no", "0", "f", "n":
			return "off", true
		}
		return "", false
	case "enum":
		return strings.ToLower(text), true
	case "integer", "real":
		v, given, err := unit.Parse(text)
		if err != nil {
			return "", false
		}
		if given != unit.None {
			base, factor, ok := unit.Suffix(s.Unit)
			if !ok {
				factor, ok = pages(s.Unit, 1)
				base = unit.Byte
			}
			if !ok || base != given {
				return "", false
			}
			v /= factor
		}
		if s.Type == "integer" {
			v = math.RoundToEven(v)
		}
		return strconv.FormatFloat(v, 'f', -1, 64), true
	}
	return text, true
}
