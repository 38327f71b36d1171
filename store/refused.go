package store

import "errors"

// Why Open refuses a store that is there and answers.
var (
	// ErrHeld says that another process has the store; the error names it.
	ErrHeld = errors.New("held by another process")
	// ErrNewer says that a newer program made the schema.
	ErrNewer = errors.New("schema is newer")
)

// IsRefused says that trying Open again cannot help before somebody has acted:
// another process has the store, or its schema is newer than this program.
func IsRefused(err error) bool { return errors.Is(err, ErrHeld) || errors.Is(err, ErrNewer) }

// IsGone says that the store's schema or tables are not there any more:
// somebody dropped them, or the database is another one now. Open makes them
// anew.
func IsGone(err error) bool {
	code := sqlState(err)
	return code == "3F000" || code == "42P01"
}
