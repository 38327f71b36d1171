package host

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// TestPlainly: a failed connection is told once, on one line, without the
// password, and what wraps it stays.
func TestPlainly(t *testing.T) {
	_, err := pgx.Connect(t.Context(), "host=127.0.0.1 port=1 user=me password=hush dbname=x")
	if err == nil {
		t.Fatal("something listens on port 1")
	}
	text := Plainly(fmt.Errorf("read the store: %w", err)).Error()
	if text != "read the store: connect as me: connection refused" {
		t.Errorf("%q", text)
	}
	if !strings.Contains(err.Error(), "\n") {
		t.Log("pgx tells it on one line by now")
	}
	if other := errors.New("x"); Plainly(other) != other || Plainly(nil) != nil {
		t.Error("another error was changed")
	}
}
