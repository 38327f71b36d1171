package fail

import (
	"errors"
	"fmt"
	"testing"
)

func TestHintNearestWins(t *testing.T) {
	base := errors.New("open x: refused")
	err := Hint(fmt.Errorf("read y: %w", Hint(base, "grant %s", "pg_monitor")), "try again")
	if got := HintOf(err); got != "grant pg_monitor" {
		t.Errorf("hint = %q, want the one nearest to the cause", got)
	}
	if !errors.Is(err, base) || err.Error() != "read y: open x: refused" {
		t.Errorf("the error itself changed: %v", err)
	}
	if Hint(nil, "x") != nil || With(nil, 3) != nil {
		t.Error("nil must stay nil")
	}
}

func TestCodeOutermostWins(t *testing.T) {
	err := With(fmt.Errorf("apply: %w", With(errors.New("x"), Drift)), Reverted)
	if got := Code(err); got != Reverted {
		t.Errorf("code = %d, want %d", got, Reverted)
	}
	if Code(nil) != OK || Code(errors.New("x")) != Failure {
		t.Error("defaults are wrong")
	}
}
