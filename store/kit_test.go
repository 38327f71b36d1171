package store

import (
	"context"
	"errors"
	"testing"

	"headroom/engine/sqlkit"
)

// TestBesideTheKit: the SQL kit comes and goes in the same schema.
func TestBesideTheKit(t *testing.T) {
	each(t, func(t *testing.T, major int) {
		for _, first := range []bool{true, false} {
			dsn := base(t, major)
			c := newClock("2026-03-01 10:00:00")
			kit := dial(t, dsn)
			install := func() {
				if _, err := sqlkit.Install(context.Background(), kit); err != nil {
					t.Fatal(err)
				}
			}
			if first {
				install()
			}
			s := openStore(t, dsn, c)
			if !first {
				install()
			}
			write(t, s, batch(row(series("x"), pt(c.now(), 1))))
			gone, err := sqlkit.Uninstall(context.Background(), kit, false)
			if err != nil || gone.SchemaGone {
				t.Errorf("%+v %v", gone, err)
			}
			maintain(t, s)
			if n := one[int64](t, kit, "select count(*) from headroom.point"); n != 1 {
				t.Errorf("%d points", n)
			}
		}
	})
}

func TestNewerSchemaIsRefused(t *testing.T) {
	dsn := base(t, 0)
	c := newClock("2026-03-01 10:00:00")
	openStore(t, dsn, c).Close()
	do(t, dial(t, dsn), "insert into headroom.store_version (version_id, is_applied) values (99, true)")
	_, err := Open(context.Background(), Options{DSN: dsn})
	if !errors.Is(err, ErrNewer) || !IsRefused(err) {
		t.Errorf("%v", err)
	}
}
