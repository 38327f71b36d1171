package sqlkit_test

import "testing"

// TestDistinctFirstRowAtOnce counts the index look-ups of a transaction: a
// cursor's first row costs one, whatever follows.
func TestDistinctFirstRowAtOnce(t *testing.T) {
	each(t, func(t *testing.T, major int) {
		c := kit(t, major)
		must(t, c, "create table k (a int not null, b int); insert into k select i, i from generate_series(1, 20000) i; create index on k (a); create index on k (b); analyze k")
		for _, open := range []string{
			"declare s cursor for select * from headroom.distinct_keys('k', 'a')", "declare s cursor for select * from headroom.distinct_rows(null::k, 'a')",
			"select headroom.distinct_cursor('s', 'k', 'a')", "declare s cursor for select * from headroom.distinct_after('k', null, 1, 'a')",
			"declare s cursor for select * from headroom.distinct_keys('k', 'b')", "select headroom.distinct_cursor('s', 'k', 'b')",
		} {
			const count = "select coalesce(sum(idx_scan), 0) from pg_stat_xact_user_tables where relname = 'k'"
			must(t, c, "begin")
			before := one(t, c, count)
			must(t, c, open)
			must(t, c, "fetch 1 from s")
			if got := one(t, c, "select ("+count+") - $1::int", before); got != "1" {
				t.Errorf("%s: %s look-ups for the first row", open, got)
			}
			must(t, c, "rollback")
		}
		must(t, c, "begin; select headroom.distinct_cursor('s', 'k', 'a')")
		if tag, err := c.Exec(t0, "move all from s"); err != nil || tag.RowsAffected() != 20000 {
			t.Errorf("the cursor has %d rows, %v", tag.RowsAffected(), err)
		}
		must(t, c, "rollback")
	})
}

// TestDistinctPagesKeepNothing: page by page, no temporary file is written
// where the keys of one query do not fit into work_mem.
func TestDistinctPagesKeepNothing(t *testing.T) {
	each(t, func(t *testing.T, major int) {
		c := kit(t, major)
		must(t, c, "create table k (a int not null); insert into k select i from generate_series(1, 20000) i; create index on k (a); analyze k; set work_mem = '64kB'")
		written := func(q string, args ...any) int64 {
			var raw []struct {
				Plan struct {
					Temp int64 `json:"Temp Written Blocks"`
				}
			}
			if err := c.QueryRow(t0, "explain (analyze, buffers, format json) "+q, args...).Scan(&raw); err != nil {
				t.Fatal(err)
			}
			return raw[0].Plan.Temp
		}
		if written("select * from headroom.distinct_keys('k', 'a')") == 0 {
			t.Error("all at once fits: this test shows nothing")
		}
		last, n := (*string)(nil), 0
		for ; n < 40; n++ {
			if w := written("select * from headroom.distinct_after('k', $1::jsonb, 500, 'a')", last); w != 0 {
				t.Fatalf("page %d wrote %d blocks", n, w)
			}
			next := one(t, c, "select k from headroom.distinct_after('k', $1::jsonb, 500, 'a') k offset 499", last)
			last = &next
		}
		if *last != `{"a": 20000}` {
			t.Errorf("%d pages end at %s", n, *last)
		}
		if got := one(t, c, "select count(*) from headroom.distinct_after('k', $1::jsonb, 500, 'a')", last); got != "0" {
			t.Errorf("%s keys after the last", got)
		}
		refused(t, c, "22023", `select headroom.distinct_after('k', '{"b": 1}', 500, 'a')`)
		refused(t, c, "22023", "select headroom.distinct_after('k', '7', 500, 'a')")
		refused(t, c, "22023", "select headroom.distinct_after('k', null, 0, 'a')")
	})
}
