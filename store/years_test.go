package store

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"headroom/metric"
)

// years is a store of 1,000 series with two years of days, which lie in the
// table day after day, as they were rolled up.
func years(t testing.TB) (*Store, *clock, []*metric.Series, string) {
	dsn := base(t, 0)
	c := newClock("2026-03-01 12:00:00")
	s := openStore(t, dsn, c)
	pg := dial(t, dsn)
	b := batch()
	var all []*metric.Series
	var ids []int64
	for h := range 50 {
		for m := range 20 {
			x := series(fmt.Sprintf(`level_%d{host="h%03d"}`, m, h))
			all, ids = append(all, x), append(ids, x.ID())
			b.Rows = append(b.Rows, row(x, pt(c.now(), 1)))
		}
	}
	write(t, s, b)
	for year := 2024; year <= 2026; year++ {
		do(t, pg, fmt.Sprintf("create table headroom.store_day_%d0101 partition of headroom.store_day for values from ('%d-01-01') to ('%d-01-01')", year, year, year+1))
	}
	sk := sketchOf([]int64{20000, 20010, 20011, 20400, 20401, 20405, 20500}).pack()
	do(t, pg, `insert into headroom.store_day (series, day, count, sum, min, max, last, last_at, sketch)
		select id, d, 24, 48 + date_part('doy', d), 1, 3, 2, d, $2 from generate_series('2024-03-01'::timestamptz, '2026-02-28', '1 day') d, unnest($1::bigint[]) id order by d, id`, ids, sk)
	do(t, pg, "update headroom.store_state set rolled = '2026-03-01'")
	do(t, pg, "vacuum analyze headroom.store_day")
	return s, c, all, dsn
}

func aYears(c *clock, fn string) Query {
	some := ""
	for _, h := range rand.Perm(50)[:12] {
		some += fmt.Sprintf("|h%03d", h)
	}
	return Query{Match: []Match{{"__name__", "=", fmt.Sprintf("level_%d", rand.IntN(20))}, {"host", "=~", some[1:]}},
		From: c.now().AddDate(0, 0, -730), To: c.now(), Step: day, Func: fn}
}

// A question about years finds its days by the index and reads no other row.
func TestYearsReadOneRowADay(t *testing.T) {
	_, c, all, dsn := years(t)
	pg := dial(t, dsn)
	ids := []int64{all[0].ID(), all[400].ID(), all[999].ID()}
	p := &plan{q: aYears(c, "avg"), level: levelDay}
	rows, err := pg.Query(t.Context(), "explain (analyze, timing off, costs off) "+p.sql(), ids, at("2024-03-01 00:00:00"), at("2026-03-01 00:00:00"))
	if err != nil {
		t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(lines, "\n")
	if strings.Contains(text, "Seq Scan") || strings.Contains(text, "Sort") || strings.Contains(text, "Rows Removed") || !strings.Contains(text, fmt.Sprintf("(actual rows=%d", 3*730)) {
		t.Errorf("want %d rows, found by the index and not sorted:\n%s", 3*730, text)
	}
}

// BenchmarkTwoYears asks for the days of two years of 12 series.
func BenchmarkTwoYears(b *testing.B) {
	s, c, _, _ := years(b)
	for _, fn := range []string{"avg", "p95"} {
		b.Run(fn, func(b *testing.B) {
			start := time.Now()
			for b.Loop() {
				if f := query(b, s, aYears(c, fn)); len(f.Lines) != 12 || f.Resolution != "1d" {
					b.Fatalf("%d lines of %s", len(f.Lines), f.Resolution)
				}
			}
			b.ReportMetric(float64(time.Since(start).Milliseconds())/float64(b.N), "ms")
		})
	}
}
