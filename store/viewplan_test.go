package store

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// TestViewsReadOneSeries: asked for one series by its number, as the functions
// do, a view unpacks the points of that one and no other.
func TestViewsReadOneSeries(t *testing.T) {
	each(t, func(t *testing.T, major int) {
		dsn := base(t, major)
		c := newClock("2026-03-01 10:00:00")
		s := openStore(t, dsn, c)
		b := batch()
		for i := range 40 {
			b.Rows = append(b.Rows, row(series(fmt.Sprintf(`x%d{host="a"}`, i)), pt(c.now(), float64(i))))
		}
		write(t, s, b)
		pg := dial(t, dsn)
		do(t, pg, "analyze headroom.series")
		x := series(`x7{host="a"}`).ID()
		for _, view := range []string{"minute", "hour", "day"} {
			if got := one[float64](t, pg, "select m.max from headroom.series s, headroom.series_"+view+"s(s.id, '2026-03-01', '2026-03-02') m where s.name = 'x7'"); got != 7 {
				t.Errorf("%s by the function: %v", view, got)
			}
			rows, err := pg.Query(t.Context(), fmt.Sprintf("explain (analyze, timing off, costs off) select at, max from headroom.%s where series = %d and day >= '2026-02-20'", view, x))
			if err != nil {
				t.Fatal(err)
			}
			plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
			if err != nil {
				t.Fatal(err)
			}
			if text := strings.Join(plan, "\n"); !strings.Contains(text, "Function Scan on series_points (actual rows=1 loops=1)") && !strings.Contains(text, "Function Scan on series_points (actual rows=1.00 loops=1)") {
				t.Errorf("%s:\n%s", view, text)
			}
		}
	})
}
