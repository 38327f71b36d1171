package store

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/puddle/v2"
)

// refusal is an error that the same batch brings each time.
type refusal struct{ error }

func (r *refusal) Unwrap() error { return r.error }

func permanent(err error) error { return &refusal{err} }

// ofBatch judges an error of a statement that carries a batch's data: what the
// server calls bad data or a broken constraint comes again each time. The same
// words about another statement (a schema being made, say) mean nothing for
// the batch.
func ofBatch(err error) error {
	if code := sqlState(err); (strings.HasPrefix(code, "22") || strings.HasPrefix(code, "23")) && !missing(err) {
		return permanent(err)
	}
	return err
}

// IsPermanent says that repeating the same Write cannot help, because the
// data is at fault: the caller isolates the batch by writing one at a time.
// Every other error is the server's or the way's: away, full, read-only,
// overloaded, half made.
func IsPermanent(err error) bool { return errors.As(err, new(*refusal)) }

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

// IsAway says that an error is the trouble of the server that the store is in,
// or of the way to it: it is not there, starts or stops, has no room for
// another connection, broke off in the middle, or lost the store's tables. The
// same question may be answered later. A server that gave up after its time
// limit is not that.
func IsAway(err error) bool {
	var pe *pgconn.PgError
	var ce *pgconn.ConnectError
	var ne net.Error
	switch {
	case errors.As(err, &ce):
		return true
	case errors.As(err, &pe):
		return IsGone(err) || pe.Code == "55P03" || pe.Code == "25006" ||
			slices.Contains([]string{"08", "40", "53", "58"}, pe.Code[:min(2, len(pe.Code))]) || strings.HasPrefix(pe.Code, "57P")
	}
	return pgconn.SafeToRetry(err) || errors.As(err, &ne) && !errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, puddle.ErrClosedPool)
}

// IsTooSlow says that the server gave up a question at its time limit.
func IsTooSlow(err error) bool { return sqlState(err) == "57014" }
