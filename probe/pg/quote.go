package pg

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/jackc/pgx/v5"
)

// Quote writes an identifier as SQL wants it, with quotes only where needed and
// on one line: what cannot be printed is written as an escape.
func Quote(name string) string {
	plain := name != "" && !slices.Contains(reserved, name)
	for i, r := range name {
		plain = plain && (r == '_' || r >= 'a' && r <= 'z' || i > 0 && r >= '0' && r <= '9')
	}
	switch {
	case plain:
		return name
	case strings.IndexFunc(name, hidden) >= 0:
		return escaped(name)
	}
	return pgx.Identifier{name}.Sanitize()
}

// hidden says whether a character would break a line, drive a terminal or hide
// what comes after it.
func hidden(r rune) bool { return !unicode.IsPrint(r) && r != ' ' }

// escaped writes a name in SQL's form with escapes, all of it visible.
func escaped(name string) string {
	var b strings.Builder
	b.WriteString(`U&"`)
	for _, r := range name {
		switch {
		case r == '"' || r == '\\':
			b.WriteRune(r)
			b.WriteRune(r)
		case hidden(r):
			fmt.Fprintf(&b, `\+%06X`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String() + `"`
}

// reserved are the words that PostgreSQL 13 to 18 do not take as a table's
// name without quotes (pg_get_keywords(), categories R and T).
var reserved = strings.Fields(`all analyse analyze and any array as asc asymmetric authorization binary both case cast
	check collate collation column concurrently constraint create cross current_catalog current_date current_role
	current_schema current_time current_timestamp current_user default deferrable desc distinct do else end except false
	fetch for foreign freeze from full grant group having ilike in initially inner intersect into is isnull join lateral
	leading left like limit localtime localtimestamp natural not notnull null offset on only or order outer overlaps
	placing primary references returning right select session_user similar some symmetric system_user table tablesample
	then to trailing true union unique user using variadic verbose when where window with`)
