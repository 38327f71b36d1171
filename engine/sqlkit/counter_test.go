package sqlkit_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"headroom/engine/sqlkit"
)

// TestCounterIsExact: eight sessions add, one compacts all the time, one reads;
// the sum is what was added, and no reader sees more or less than was there.
func TestCounterIsExact(t *testing.T) {
	each(t, func(t *testing.T, major int) {
		c := kit(t, major)
		must(t, c, "select headroom.counter_create('hits')")
		const writers, each = 8, 150
		var conns []*pgx.Conn
		for range writers + 1 {
			conns = append(conns, again(t, c, "postgres"))
		}
		var wg, compactor sync.WaitGroup
		done := make(chan struct{})
		compactor.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if _, err := conns[writers].Exec(t0, "select headroom.counter_compact('hits')"); err != nil {
					t.Error(err)
					return
				}
			}
		})
		for i := range writers {
			wg.Go(func() {
				for j := range each {
					if _, err := conns[i].Exec(t0, "select headroom.counter_add('hits', 'page', $1)", j%3+1); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		last := 0.0
		for range 20 {
			now, err := strconv.ParseFloat(one(t, c, "select headroom.counter_read('hits', 'page')"), 64)
			if err != nil || now < last {
				t.Errorf("fell from %v to %v: %v", last, now, err)
			}
			last = now
		}
		wg.Wait()
		close(done)
		compactor.Wait()
		if got := one(t, c, "select headroom.counter_read('hits', 'page')"); got != fmt.Sprint(writers*each*2) {
			t.Errorf("%s, want %d", got, writers*each*2)
		}
		if slots := one(t, c, "select count(*) <= 9 from hits"); slots != "true" {
			t.Errorf("more slots than sessions: %s", one(t, c, "select count(*) from hits"))
		}
		must(t, c, "select headroom.counter_compact('hits')")
		if got := one(t, c, "select count(*) || ' ' || sum(value) from hits"); got != fmt.Sprintf("1 %d", writers*each*2) {
			t.Error(got)
		}
	})
}

// TestCounterDoesNotWait: with a transaction open on the counter, others add
// under a lock_timeout that any wait would hit.
func TestCounterDoesNotWait(t *testing.T) {
	each(t, func(t *testing.T, major int) {
		c := kit(t, major)
		must(t, c, "select headroom.counter_create('hits'); select headroom.counter_add('hits', 'a'); set lock_timeout = '1ms'")
		var open []*pgx.Conn
		for i := range 5 {
			o := again(t, c, "postgres")
			must(t, o, fmt.Sprintf("set lock_timeout = '1ms'; begin; select headroom.counter_add('hits', 'a', %d); select headroom.counter_add('hits', 'a', %[1]d)", i+1))
			open = append(open, o)
		}
		must(t, c, "select headroom.counter_add('hits', 'a'); select headroom.counter_compact('hits')")
		if got := one(t, c, "select headroom.counter_read('hits', 'a')"); got != "2" {
			t.Errorf("uncommitted additions are seen: %s", got)
		}
		for i, o := range open {
			must(t, o, []string{"commit", "rollback"}[i%2])
		}
		if got := one(t, c, "select headroom.counter_read('hits', 'a')"); got != "20" {
			t.Errorf("%s, want 2 + 2*(1+3+5)", got)
		}
	})
}

func TestCounterIsolationAndErrors(t *testing.T) {
	c := kit(t, 0)
	must(t, c, "select headroom.counter_create('hits'); select headroom.counter_add('hits', 'a', -5)")
	other := again(t, c, "postgres")
	for _, level := range []string{"repeatable read", "serializable"} {
		must(t, c, "begin isolation level "+level+"; select * from hits")
		must(t, other, "select headroom.counter_add('hits', 'a')")
		must(t, c, "select headroom.counter_add('hits', 'a')")
		refused(t, c, "25000", "select headroom.counter_compact('hits')")
		must(t, c, "rollback")
	}
	must(t, c, "begin isolation level repeatable read; select headroom.counter_add('hits', 'a', 10); commit")
	if got := one(t, c, "select headroom.counter_read('hits', 'a') || ' ' || headroom.counter_read('hits', 'nobody')"); got != "7 0" {
		t.Error(got)
	}
	refused(t, c, "22003", "select headroom.counter_add('hits', 'a', 9223372036854775807), headroom.counter_add('hits', 'a', 9223372036854775807)")
	refused(t, c, "23502", "select headroom.counter_add('hits', null)")
	refused(t, c, "42P07", "select headroom.counter_create('hits')")
	refused(t, c, "42602", "select headroom.counter_create(repeat('x', 64))")
	must(t, c, "set search_path = ''")
	refused(t, c, "3F000", "select headroom.counter_create('hits')")
	// The counters are the user's and stay.
	must(t, c, "reset search_path")
	if _, err := sqlkit.Uninstall(t.Context(), c, false); err != nil {
		t.Fatal(err)
	}
	if got := one(t, c, "select sum(value) from hits where key = 'a'"); got != "7" {
		t.Error(got)
	}
}

func TestCounterHostileNames(t *testing.T) {
	c := kit(t, 0)
	rapid.Check(t, func(r *rapid.T) {
		schema, name, key := hostile.Draw(r, "schema"), hostile.Draw(r, "name"), hostile.Draw(r, "key")
		schema = "s" + schema[:min(len(schema), 40)]
		if _, err := c.Exec(context.Background(), "select 1 where $1::text is null", schema); err != nil {
			r.Skip("not UTF-8 after the cut")
		}
		must(r, c, "create schema "+quote(schema))
		defer must(r, c, "drop schema "+quote(schema)+" cascade")
		tbl := one(r, c, "select headroom.counter_create($1, $2)", name, schema)
		for range 2 {
			must(r, c, "select headroom.counter_add($1::regclass, $2, 3)", tbl, key)
		}
		must(r, c, "insert into "+quote(schema, name)+" (key, value) values ($1, 1)", key)
		if got := one(r, c, "select headroom.counter_compact($1::regclass, $2)", tbl, key); got != "1" {
			r.Fatalf("compacted %s", got)
		}
		if got := one(r, c, "select string_agg(key || value, ',') from headroom.counter_values($1::regclass)", tbl); got != key+"7" {
			r.Fatalf("%q, want %q", got, key+"7")
		}
	})
	if c.IsClosed() {
		t.Error(errors.New("the connection was lost"))
	}
}
