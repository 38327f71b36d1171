package agent

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"headroom/fail"
	"headroom/host"
	"headroom/metric"
)

// A server that was named and refuses the login is told with the way out of
// that refusal: a wrong password is not mended by another role.
func TestNamedServerTellsTheWayOutOfItsRefusal(t *testing.T) {
	f := &Finder{Reader: machine(), DSNs: []string{"host=db.example.com user=x"}}
	f.Knock = func(context.Context, metric.Target, string) (Identity, error) {
		return Identity{}, fail.Hint(fmt.Errorf("%w: %w", host.ErrConnect, &pgconn.PgError{Code: "28P01"}), "give the password in ~/.pgpass")
	}
	for _, target := range f.Find(t.Context()) {
		if target.Found == "named by --db" {
			if target.Missing == "" || target.Hint != "give the password in ~/.pgpass" {
				t.Errorf("missing %q, hint %q", target.Missing, target.Hint)
			}
			return
		}
	}
	t.Error("the named server is not among the targets")
}
