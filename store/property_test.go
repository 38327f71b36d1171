package store

import (
	"context"
	"flag"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"headroom/metric"
)

// model is what the store should hold: of each series, the last value written
// at each time.
type model map[*metric.Series]map[int64]float64

func (m model) write(b *metric.Batch) {
	for _, r := range b.Rows {
		if m[r.Series] == nil {
			m[r.Series] = map[int64]float64{}
		}
		for _, p := range r.Points {
			m[r.Series][p.At] = p.Value
		}
	}
}

func (m model) points(s *metric.Series) []metric.Point {
	var ps []metric.Point
	for at, v := range m[s] {
		ps = append(ps, metric.Point{At: at, Value: v})
	}
	slices.SortFunc(ps, func(a, b metric.Point) int { return int(a.At - b.At) })
	return ps
}

// sqlRow is one row of the views.
type sqlRow struct {
	At                  time.Time
	Count               int64
	Sum, Min, Max, Last float64
	Increase            *float64
}

// recompute makes the rows of a width from the points, in the plainest way.
func recompute(ps []metric.Point, width time.Duration, counter bool, before time.Time) []sqlRow {
	var out []sqlRow
	for i, p := range ps {
		at := time.UnixMilli(p.At).UTC()
		if !at.Before(before) {
			break
		}
		start := at.Truncate(width)
		if len(out) == 0 || !out[len(out)-1].At.Equal(start) {
			out = append(out, sqlRow{At: start, Min: p.Value, Max: p.Value})
			if counter {
				out[len(out)-1].Increase = new(float64)
			}
		} else if counter {
			d := p.Value - ps[i-1].Value
			if d < 0 {
				d = p.Value
			}
			*out[len(out)-1].Increase += d
		}
		r := &out[len(out)-1]
		r.Count++
		r.Sum += p.Value
		r.Min, r.Max, r.Last = math.Min(r.Min, p.Value), math.Max(r.Max, p.Value), p.Value
	}
	return out
}

func (a sqlRow) same(b sqlRow) bool {
	inc := a.Increase == nil && b.Increase == nil || a.Increase != nil && b.Increase != nil && near(*a.Increase, *b.Increase)
	return a.At.Equal(b.At) && a.Count == b.Count && a.Sum == b.Sum && a.Min == b.Min && a.Max == b.Max && a.Last == b.Last && inc
}

// near: the rise of a counter is a sum of differences or a difference of sums.
func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*math.Max(math.Abs(a), math.Abs(b)) }

func (r sqlRow) String() string {
	inc := "-"
	if r.Increase != nil {
		inc = fmt.Sprint(*r.Increase)
	}
	return fmt.Sprintf("%s n=%d sum=%v min=%v max=%v last=%v inc=%s", r.At.UTC().Format("01-02 15:04"), r.Count, r.Sum, r.Min, r.Max, r.Last, inc)
}

type fataler interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
}

// agree compares all that plain SQL shows with the model.
func agree(t fataler, c *pgx.Conn, m model, rolled time.Time) {
	t.Helper()
	for s := range m {
		ps := m.points(s)
		rows, err := c.Query(context.Background(), "select (extract(epoch from at) * 1000)::bigint, value from headroom.point where series = $1 order by 1", s.ID())
		if err != nil {
			t.Fatal(err)
		}
		got, err := pgx.CollectRows(rows, pgx.RowToStructByPos[metric.Point])
		if err != nil {
			t.Fatal(err)
		}
		if got = settle(got); !slices.Equal(got, ps) {
			i := 0
			for i < min(len(got), len(ps)) && got[i] == ps[i] {
				i++
			}
			t.Fatalf("%s: %d points, want %d; the first %d are the same", s, len(got), len(ps), i)
		}
		for view, width := range map[string]time.Duration{"minute": time.Minute, "hour": time.Hour, "day": day} {
			rows, err := c.Query(context.Background(), "select at, count, sum, min, max, last, increase from headroom."+view+" where series = $1 and day < $2 order by 1", s.ID(), rolled)
			if err != nil {
				t.Fatal(err)
			}
			got, err := pgx.CollectRows(rows, pgx.RowToStructByPos[sqlRow])
			if err != nil {
				t.Fatal(err)
			}
			want := recompute(ps, width, isCounter(s.Name), rolled)
			for i := range max(len(got), len(want)) {
				if i >= min(len(got), len(want)) || !got[i].same(want[i]) {
					t.Fatalf("%s by %s: %d rows, want %d; from row %d on\n got %v\nwant %v", s, view, len(got), len(want), i, got[min(i, len(got)):min(i+1, len(got))], want[min(i, len(want)):min(i+1, len(want))])
				}
			}
		}
	}
}

// asked compares what Query sums up with the model, at every resolution.
func asked(t fataler, s *Store, m model, from, to time.Time) {
	t.Helper()
	for _, step := range []time.Duration{10 * time.Minute, 3 * time.Hour, day} {
		for ser := range m {
			for _, fn := range []string{"count", "max", "increase"} {
				f, err := s.Query(context.Background(), Query{Match: named(ser.Name), From: from, To: to, Step: step, Func: fn, Limit: 10})
				if err != nil {
					t.Fatal(err)
				}
				var got float64
				for _, l := range f.Lines {
					for _, v := range l.Values {
						if !math.IsNaN(v) && fn == "max" {
							got = math.Max(got, v)
						} else if !math.IsNaN(v) {
							got += v
						}
					}
				}
				if want := simply(m.points(ser), fn); !near(got, want) && (fn != "increase" || isCounter(ser.Name)) {
					t.Fatalf("%s of %s by %s (%s): %v, want %v", fn, ser, step, f.Resolution, got, want)
				}
			}
		}
	}
}

func simply(ps []metric.Point, fn string) float64 {
	var out float64
	for i, p := range ps {
		switch {
		case fn == "count":
			out++
		case fn == "max":
			out = math.Max(out, p.Value)
		case i > 0:
			out += rise(ps[i-1].Value, p.Value)
		}
	}
	return out
}

// TestRollUpsEqualRecompute: whatever comes in whatever order, and wherever
// the process is restarted, the roll-ups are those of the points.
func TestRollUpsEqualRecompute(t *testing.T) {
	few(t, "25")
	dsn := base(t, 0)
	pg := dial(t, dsn)
	all := []*metric.Series{series(`load{host="a"}`), series(`jobs_total{host="a"}`), series(`ratio{host="a"}`)}
	rapid.Check(t, func(r *rapid.T) {
		do(t, pg, "drop schema if exists headroom cascade")
		c := newClock("2026-03-01 00:00:00")
		start, m := c.now(), model{}
		open := func() *Store {
			s, err := Open(context.Background(), Options{DSN: dsn, Now: c.now, Lived: c.passed, Retention: must(ParseRetention("raw:30d,1m:60d"))})
			if err != nil {
				r.Fatal(err)
			}
			return s
		}
		s := open()
		defer func() { s.Close() }()
		var sent []*metric.Batch
		for range rapid.IntRange(1, 25).Draw(r, "steps") {
			switch rapid.SampledFrom([]string{"write", "write", "write", "again", "wait", "maintain", "restart", "memory"}).Draw(r, "step") {
			case "write":
				b := drawBatch(r, all, start, c.now())
				if err := s.Write(context.Background(), []*metric.Batch{b}); err != nil {
					r.Fatal(err)
				}
				m.write(b)
				sent = append(sent, b)
			case "again":
				if err := s.Write(context.Background(), sent); err != nil {
					r.Fatal(err)
				}
			case "wait":
				c.add(time.Duration(rapid.IntRange(1, 40).Draw(r, "hours")) * time.Hour)
			case "maintain", "memory":
				s.o.HeadBytes = int64(rapid.SampledFrom([]int{1, 96 << 20}).Draw(r, "memory"))
				if err := s.Maintain(context.Background()); err != nil {
					r.Fatal(err)
				}
				s.o.HeadBytes = 96 << 20
			case "restart":
				s.Close()
				s = open()
			}
		}
		asked(r, s, m, start.Add(-day), c.now().Add(day))
		// A last point makes the days before be over, once the clock is believed
		// that went on while nobody looked.
		if err := s.Maintain(context.Background()); err != nil {
			r.Fatal(err)
		}
		c.add(50 * time.Hour)
		b := batch(row(all[0], pt(c.now(), 1)))
		if err := s.Write(context.Background(), []*metric.Batch{b}); err != nil {
			r.Fatal(err)
		}
		m.write(b)
		if err := s.Maintain(context.Background()); err != nil {
			r.Fatal(err)
		}
		asked(r, s, m, start.Add(-day), c.now().Add(day))
		st, err := s.Status(context.Background())
		if err != nil {
			r.Fatal(err)
		}
		if st.Dirty > 0 || len(m) > 0 && st.RolledTo.IsZero() && c.now().Sub(start) > 3*day {
			r.Fatalf("%+v", st)
		}
		agree(r, pg, m, st.RolledTo)
	})
}

// drawBatch makes points of some series from the start up to a little past
// now, out of order and more than once at a time.
func drawBatch(r *rapid.T, all []*metric.Series, start, now time.Time) *metric.Batch {
	b := batch()
	span := now.Sub(start).Milliseconds() + 1000
	for _, s := range all {
		var ps []metric.Point
		for range rapid.IntRange(0, 30).Draw(r, "points") {
			p := metric.Point{At: start.UnixMilli() + rapid.Int64Range(0, span).Draw(r, "at")}
			if rapid.Bool().Draw(r, "on a grid") {
				p.At -= p.At % 600_000
			}
			switch s.Name {
			case "ratio":
				p.Value = rapid.Float64Range(0, 1).Draw(r, "v")
			default:
				p.Value = float64(rapid.IntRange(0, 1000).Draw(r, "v")) / 4
			}
			ps = append(ps, p)
		}
		b.Rows = append(b.Rows, row(s, ps...))
	}
	return b
}

// few lowers the number of drawn cases, where each takes a second, unless more
// are asked for.
func few(t *testing.T, n string) {
	f := flag.Lookup("rapid.checks")
	if was := f.Value.String(); was == f.DefValue {
		_ = f.Value.Set(n)
		t.Cleanup(func() { _ = f.Value.Set(was) })
	}
}
