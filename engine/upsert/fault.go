package upsert

import (
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// kind is what an error means for a batch.
type kind int

const (
	fatal     kind = iota // no row will ever get in
	data                  // a row is refused
	twice                 // one statement met one key twice
	passing               // try again
	reconnect             // try again on a new connection
)

// classify says what an error of the server, or of the connection, means.
// rowSecurity: the table has policies, whose violation has the code of a
// missing right.
func classify(err error, rowSecurity bool) kind {
	var pe *pgconn.PgError
	var l *lost
	gone := errors.As(err, &l)
	if errors.Is(err, errTaken) {
		return fatal
	}
	if !errors.As(err, &pe) {
		return reconnect // the network, or a server that does not answer
	}
	k := byCode(pe, rowSecurity)
	if gone && k != fatal {
		return reconnect
	}
	return k
}

func byCode(pe *pgconn.PgError, rowSecurity bool) kind {
	switch pe.Code {
	case "21000":
		return twice
	case "40001", "40P01", "55P03", "57014", "55006":
		return passing
	case "25006", "26000", "57P01", "57P02", "57P03", "57P05", "25P03":
		return reconnect // a standby now; or a pooler gave us another session; or the server ends
	case "42501":
		if rowSecurity {
			return data
		}
		return fatal
	case "P0001", "P0004", "44000":
		return data // a trigger or a view's condition says no
	case "28000", "28P01", "3D000", "42P01", "0A000":
		return fatal
	}
	switch pe.Code[:min(2, len(pe.Code))] {
	case "22", "23", "54":
		return data
	case "53", "58":
		return passing // disk full, out of memory, too many connections, an I/O error
	case "08":
		return reconnect
	}
	return fatal
}

// reason is why a row was refused, in a sentence; errors.As still finds the
// server's error.
func reason(err error) error {
	var pe *pgconn.PgError
	if !errors.As(err, &pe) {
		return err
	}
	var where []string
	if pe.ConstraintName != "" {
		where = append(where, fmt.Sprintf("constraint %q", pe.ConstraintName))
	}
	if pe.ColumnName != "" {
		where = append(where, fmt.Sprintf("column %q", pe.ColumnName))
	}
	if what := constraintKinds[pe.Code]; what != "" {
		where = append([]string{what}, where...)
	}
	where = append(where, "SQLSTATE "+pe.Code)
	text := oneLine(pe.Message)
	if d := oneLine(pe.Detail); d != "" && pe.Code != "23514" && pe.Code != "23502" { // these only repeat the row
		text += ": " + strings.TrimSuffix(d[:min(len(d), 200)], ".")
	}
	return &refused{text: fmt.Sprintf("%s (%s)", text, strings.Join(where, ", ")), cause: err}
}

var constraintKinds = map[string]string{
	"23502": "NOT NULL", "23503": "foreign key", "23505": "unique", "23514": "check", "23P01": "exclusion",
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

type refused struct {
	text  string
	cause error
}

func (r *refused) Error() string { return r.text }
func (r *refused) Unwrap() error { return r.cause }
