package pg

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"headroom/fact"
	"headroom/unit"
)

// Setting is one parameter of the server, as a new session of a role without
// settings of its own would see it.
type Setting struct {
	Value   string            `json:"value" src:"pg_settings reset_val" doc:"value in the server's own unit; '(set)' or '(not set)' where it may hold a secret"`
	Number  fact.Opt[float64] `json:"number,omitzero" src:"pg_settings reset_val × unit" doc:"value in base units (see base), where it is a figure"`
	Base    unit.Unit         `json:"base,omitempty" src:"pg_settings unit" doc:"base unit of number: bytes, seconds or none"`
	Unit    string            `json:"unit,omitempty" src:"pg_settings unit" doc:"the server's own unit, such as 8kB"`
	Type    string            `json:"type,omitempty" src:"pg_settings vartype" doc:"bool, integer, real, enum or string"`
	Context string            `json:"context,omitempty" src:"pg_settings context" doc:"who can change it when: postmaster means at server start"`
	Masked  string            `json:"masked,omitempty" src:"pg_settings source" doc:"why the server's own value cannot be told: the value is that of our role, database or connection"`
	Source  string            `json:"source,omitempty" src:"pg_settings source" doc:"where the value comes from; empty where our own session hides it"`
	File    string            `json:"file,omitempty" src:"pg_settings sourcefile" doc:"configuration file that sets it"`
	Line    int64             `json:"line,omitempty" unit:"count" src:"pg_settings sourceline" doc:"line in that file"`
	Boot    string            `json:"boot,omitempty" src:"pg_settings boot_val" doc:"built-in default, in the server's own unit"`
	Pending bool              `json:"pending,omitempty" src:"pg_settings pending_restart" doc:"the file holds another value, which waits for a restart"`
	Min     string            `json:"min,omitempty" src:"pg_settings min_val" doc:"lowest value, in the server's own unit"`
	Max     string            `json:"max,omitempty" src:"pg_settings max_val" doc:"highest value, in the server's own unit"`
	Choices []string          `json:"choices,omitempty" src:"pg_settings enumvals" doc:"the words that it takes"`
}

// Config is all settings that can be seen.
type Config struct {
	All    map[string]Setting `json:"all" doc:"by name"`
	Hidden string             `json:"hidden,omitempty" src:"pg_has_role(pg_read_all_settings)" doc:"why some settings are missing; empty if none is"`
}

// Settings is the fact "pg.settings".
var Settings = &fact.Source[Config]{
	Name: "pg.settings", Doc: "the server's settings, where they come from and what waits for a restart; never secrets",
	Read: readSettings,
}

// Number returns a setting's value in base units; ok is false if the server
// has no such setting, its value cannot be told, or it is no figure.
func (c Config) Number(name string) (v float64, ok bool) {
	s, found := c.All[name]
	if !found || s.Masked != "" || s.Type != "integer" && s.Type != "real" || !s.Number.OK() {
		return 0, false
	}
	return s.Number.Value, true
}

// Text returns a setting's value as the server gives it, or "" if it cannot
// be told.
func (c Config) Text(name string) string {
	if s := c.All[name]; s.Masked == "" {
		return s.Value
	}
	return ""
}

// On says whether a switch is there and on.
func (c Config) On(name string) bool { return c.Text(name) == "on" }

// Off says whether a switch is there and off.
func (c Config) Off(name string) bool { return c.Text(name) == "off" }

// Stock says whether a setting has its built-in value.
func (c Config) Stock(name string) bool {
	s, ok := c.All[name]
	return ok && s.Masked == "" && s.Value == s.Boot
}

// Why tells why a setting cannot be told, or "".
func (c Config) Why(name string) string {
	if s, ok := c.All[name]; ok {
		return s.Masked
	}
	if c.Hidden != "" {
		return "setting " + name + " cannot be seen: " + c.Hidden
	}
	return "this server has no setting " + name
}

// Shown writes a setting's value for people: "1 GB", "5 min", "0.9", "on".
func (c Config) Shown(name string) string {
	v, ok := c.Number(name)
	if !ok {
		return c.Text(name)
	}
	base := c.All[name].Base
	if v < 0 { // a special meaning, not a size: -1
		base = unit.None
	}
	return unit.Format(v, base)
}

func readSettings(ctx context.Context, in *fact.In) (Config, error) {
	s, err := From(ctx, in)
	if err != nil {
		return Config{}, err
	}
	c := Config{All: map[string]Setting{}}
	var all bool
	err = look(ctx, in, "read the settings", func(ctx context.Context, tx pgx.Tx) error {
		sql, err := statement("settings", s.Major)
		if err != nil {
			return err
		}
		rows, err := tx.Query(ctx, sql)
		if err != nil {
			return err
		}
		var name string
		var one Setting
		masked := false
		_, err = pgx.ForEachRow(rows, []any{&name, &one.Value, &one.Unit, &one.Type, &one.Context, &one.Source, &one.File, &one.Line,
			&one.Boot, &one.Pending, &one.Min, &one.Max, &one.Choices, &all}, func() error {
			c.All[name] = one
			masked = masked || overrides(name, one.Source) != ""
			return nil
		})
		if err != nil || !masked {
			return err
		}
		return unmask(ctx, tx, s, c.All)
	})
	if err != nil {
		return Config{}, err
	}
	for name, one := range c.All {
		c.All[name] = finish(name, one)
	}
	if !all {
		c.Hidden = fmt.Sprintf("role %s may not see all settings (open it with: GRANT pg_monitor TO %s)", s.User, pgx.Identifier{s.User}.Sanitize())
	}
	return c, nil
}

// finish works out the figure and takes secrets away.
func finish(name string, s Setting) Setting {
	s.Choices = append([]string(nil), s.Choices...)
	if s.Source == "session" { // our own time limits and search path
		s.Source = ""
	}
	if secret(name, s.Type) {
		s.Value, s.Boot = redacted(s.Value), ""
		return s
	}
	if s.Type != "integer" && s.Type != "real" {
		return s
	}
	v, err := strconv.ParseFloat(s.Value, 64)
	base, factor, ok := unit.Suffix(s.Unit)
	switch {
	case err != nil:
		s.Number = fact.Unknown[float64](fmt.Sprintf("%.40q is not a number", s.Value))
	case !ok:
		if v, ok := pages(s.Unit, v); ok {
			s.Number, s.Base = fact.Known(v), unit.Byte
			break
		}
		s.Number = fact.Unknown[float64](fmt.Sprintf("unknown unit %q", s.Unit))
	case v < 0: // -1 is a word, not a size
		s.Number, s.Base = fact.Known(v), base
	default:
		s.Number, s.Base = fact.Known(v*factor), base
	}
	return s
}

// pages reads a unit that is a count of kB: "64kB" of servers that were built
// with another page size.
func pages(word string, v float64) (float64, bool) {
	n, ok := strings.CutSuffix(word, "kB")
	times, err := strconv.ParseFloat(n, 64)
	return v * times * unit.KB, ok && err == nil
}

func redacted(value string) string {
	if value == "" {
		return "(not set)"
	}
	return "(set)"
}

// secrets are the server's own settings that can hold a password or a command
// line with one.
var secrets = map[string]bool{
	"primary_conninfo": true, "ssl_passphrase_command": true, "archive_command": true, "restore_command": true,
	"archive_cleanup_command": true, "recovery_end_command": true,
}

// harmless are extensions' text settings that are known to be harmless.
var harmless = []string{"auto_explain.", "pg_stat_statements.", "plpgsql.", "pg_prewarm.", "auto_delay.", "timescaledb.license"}

// secret says whether a setting's value must not leave the server. Anything
// that mentions a password is, and every text that an extension or an
// application defined (names with a dot), as anything may be kept there.
func secret(name, vartype string) bool {
	n := strings.ToLower(name)
	if secrets[n] || strings.Contains(n, "passw") && vartype == "string" {
		return true
	}
	if !strings.Contains(n, ".") || vartype != "string" {
		return false
	}
	for _, h := range harmless {
		if strings.HasPrefix(n, h) {
			return false
		}
	}
	return true
}
