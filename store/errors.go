package store

import (
	"errors"
	"os"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

type judged struct {
	error
	permanent bool
}

func (j *judged) Unwrap() error { return j.error }

// permanent marks an error that the same batch brings each time.
func permanent(err error) error { return &judged{err, true} }

// transient marks an error that says nothing about the batch.
func transient(err error) error { return &judged{err, false} }

// IsPermanent says that repeating the same Write cannot help, because the
// data is at fault: the caller isolates the batch by writing one at a time. A
// server that is away, full, read-only or overloaded is not that.
func IsPermanent(err error) bool {
	var j *judged
	if errors.As(err, &j) {
		return j.permanent
	}
	code := sqlState(err)
	return strings.HasPrefix(code, "22") || strings.HasPrefix(code, "23")
}

func sqlState(err error) string {
	var pe *pgconn.PgError
	if errors.As(err, &pe) {
		return pe.Code
	}
	return ""
}

// missing says that a table or partition that should be there is not.
func missing(err error) bool {
	var pe *pgconn.PgError
	return errors.As(err, &pe) && (pe.Code == "42P01" || pe.Code == "23514" && strings.Contains(pe.Message, "no partition"))
}

func pid() int { return os.Getpid() }
