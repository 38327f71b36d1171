package change

import (
	"testing"

	"github.com/jackc/pgx/v5"
)

func TestConninfoLeadsBack(t *testing.T) {
	for _, s := range []Server{
		{Address: "/run/it's here:5433", Role: `o'neil\`, Database: "a b"},
		{Address: "[::1]:5432", Role: "u", Database: "d"},
	} {
		cfg, err := pgx.ParseConfig(s.Conninfo())
		if err != nil || cfg.User != s.Role || cfg.Database != s.Database {
			t.Errorf("%q: %v, user %q database %q", s.Conninfo(), err, cfg.User, cfg.Database)
		}
	}
}
