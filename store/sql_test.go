package store

import (
	"context"
	"math"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"
)

// TestSQLDecodesTheSame: plain SQL reads any packed column as Go does.
func TestSQLDecodesTheSame(t *testing.T) {
	each(t, func(t *testing.T, major int) {
		dsn := base(t, major)
		openStore(t, dsn, newClock("2026-03-01 00:00:00"))
		pg := dial(t, dsn)
		rapid.Check(t, func(r *rapid.T) {
			v := numbers(r)
			got := one[[]int64](t, pg, "select headroom._store_ints($1, $2)", packInts(nil, v), len(v))
			if !slices.Equal(got, v) {
				r.Fatalf("%v\n%v", v, got)
			}
			fs := rapid.SliceOf(rapid.OneOf(rapid.Float64(), rapid.Float64Range(0, 1),
				rapid.Map(rapid.IntRange(-1000, 1000), func(i int) float64 { return float64(i) / 100 }),
				rapid.SampledFrom([]float64{5e-324, math.MaxFloat64, -math.MaxFloat64, 1 << 61, 0.1, math.SmallestNonzeroFloat64 * 3}))).Draw(r, "floats")
			for i := range fs {
				fs[i] += 0
			}
			back := one[[]float64](t, pg, "select headroom._store_floats($1, $2)", packFloats(nil, fs, nil), len(fs))
			if !slices.Equal(back, fs) {
				r.Fatalf("%v\n%v", fs, back)
			}
		})
	})
}

// TestSketch: quantiles are within 2 % of the value at that rank, also after
// joining, in Go and in SQL.
func TestSketch(t *testing.T) {
	dsn := base(t, 0)
	openStore(t, dsn, newClock("2026-03-01 00:00:00"))
	pg := dial(t, dsn)
	rapid.Check(t, func(r *rapid.T) {
		vs := rapid.SliceOfN(rapid.OneOf(rapid.Float64Range(-1000, 1000), rapid.Float64Range(0, 1e-6), rapid.SampledFrom([]float64{0, 1, 1e300, -1e300, 1.1e-308, -5e-324})), 1, 300).Draw(r, "values")
		cut := rapid.IntRange(0, len(vs)).Draw(r, "cut")
		keys := func(vs []float64) (out []int64) {
			for _, v := range vs {
				out = append(out, sketchKey(v))
			}
			return out
		}
		s := joinSketch(sketchOf(keys(vs[:cut])), sketchOf(keys(vs[cut:])))
		s = must(unpackSketch(s.pack()))
		slices.Sort(vs)
		for _, q := range []float64{0, 0.5, 0.95, 1} {
			want := vs[int(math.Floor(q*float64(len(vs)-1)))]
			got := s.quantile(q)
			if math.Abs(got-want) > 0.02*math.Abs(want)*(1+1e-9)+sketchZero {
				r.Fatalf("quantile %v of %d values: %v, want %v", q, len(vs), got, want)
			}
			if bySQL := one[float64](t, pg, "select headroom.sketch_quantile($1, $2)", s.pack(), q); math.Abs(bySQL-got) > 1e-9*math.Abs(got) {
				r.Fatalf("quantile %v by SQL: %v, want %v", q, bySQL, got)
			}
		}
	})
}

// TestForGrafana: what docs/store.md says one asks is answered.
func TestForGrafana(t *testing.T) {
	dsn := base(t, 0)
	c := newClock("2026-03-01 10:00:00")
	s := openStore(t, dsn, c)
	x := series(`host_load1{host="a"}`)
	for range 5 {
		write(t, s, batch(row(x, pt(c.now(), 2.5))))
		c.add(20 * 60e9)
		maintain(t, s)
	}
	pg := dial(t, dsn)
	rows, err := pg.Query(context.Background(), `select p.at as time, s.labels ->> 'host' as metric, p.value
		from headroom.series s, headroom.series_points(s.id, $1, $2) p where s.name = 'host_load1' order by 1`, c.now().Add(-day), c.now())
	if err != nil {
		t.Fatal(err)
	}
	got, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (float64, error) {
		var v float64
		return v, r.Scan(nil, nil, &v)
	})
	if err != nil || len(got) != 5 {
		t.Errorf("%v %v", got, err)
	}
}
