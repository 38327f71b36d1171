package store

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"headroom/fail"
	"headroom/metric"
)

// three hosts with two disks each; value = 10·host + disk at each of 60
// minutes, and a counter that rises by host+1 each minute.
func asking(t *testing.T) (*Store, *clock, string) {
	dsn := base(t, 0)
	c := newClock("2026-03-01 10:00:00")
	s := openStore(t, dsn, c)
	for range 60 {
		b := batch()
		i := c.now().Minute()
		for h := range 3 {
			for d := range 2 {
				g := series(fmt.Sprintf(`used_ratio{host="h%d",disk="d%d"}`, h, d))
				n := series(fmt.Sprintf(`reads_total{host="h%d",disk="d%d"}`, h, d))
				b.Rows = append(b.Rows, row(g, pt(c.now(), float64(10*h+d))), row(n, pt(c.now(), float64((h+1)*i*60))))
			}
		}
		write(t, s, b)
		c.add(time.Minute)
	}
	return s, c, dsn
}

func TestGroups(t *testing.T) {
	s, c, _ := asking(t)
	hour := Query{Match: named("used_ratio"), From: c.now().Add(-time.Hour), To: c.now(), Step: 10 * time.Minute}
	show := func(q Query) string {
		var out []string
		for _, l := range query(t, s, q).Lines {
			var ls []string
			for _, x := range l.Labels {
				ls = append(ls, x.Value)
			}
			out = append(out, fmt.Sprintf("%s=%v", strings.Join(ls, "/"), l.Values[3]))
		}
		return strings.Join(out, " ")
	}
	for _, x := range []struct {
		change func(*Query)
		want   string
	}{
		{func(q *Query) {}, "d0/h0=0 d0/h1=10 d0/h2=20 d1/h0=1 d1/h1=11 d1/h2=21"},
		{func(q *Query) { q.By, q.Agg = []string{"host"}, "sum" }, "h0=1 h1=21 h2=41"},
		{func(q *Query) { q.By, q.Agg = []string{"host"}, "avg" }, "h0=0.5 h1=10.5 h2=20.5"},
		{func(q *Query) { q.By, q.Agg = []string{"disk"}, "max" }, "d0=20 d1=21"},
		{func(q *Query) { q.By, q.Agg = []string{""}, "count" }, "=6"},
		{func(q *Query) { q.By, q.Agg = []string{""}, "min" }, "=0"},
		{func(q *Query) { q.Top = 2 }, "d1/h2=21 d0/h2=20"},
		{func(q *Query) { q.Match = append(q.Match, Match{"host", "=~", "h[01]"}, Match{"disk", "!=", "d0"}) }, "d1/h0=1 d1/h1=11"},
		{func(q *Query) { q.Match = append(q.Match, Match{"host", "!~", "h.*"}) }, ""},
		{func(q *Query) { q.Match = named("unknown") }, ""},
		{func(q *Query) {
			q.Match = []Match{{"__name__", "=~", "reads.*"}}
			q.Func, q.By = "rate", []string{"host"}
		}, "h0=2 h1=4 h2=6"},
		{func(q *Query) { q.Match = named("reads_total"); q.Func, q.By = "increase", []string{"host"} }, "h0=1200 h1=2400 h2=3600"},
		{func(q *Query) { q.Func, q.By = "p50", []string{"host"} }, "h0=1 h1=21 h2=41"},
	} {
		q := hour
		q.Match = slices.Clone(q.Match)
		x.change(&q)
		if got := show(q); got != x.want {
			t.Errorf("%+v:\n got %s\nwant %s", q, got, x.want)
		}
	}
	f := query(t, s, Query{Match: named("used_ratio"), From: c.now().Add(-2 * time.Hour), To: c.now().Add(time.Hour), Step: 30 * time.Minute, Func: "last"})
	if n := len(f.At); n != 6 || len(f.Lines[0].Values) != n || !math.IsNaN(f.Lines[0].Values[0]) || math.IsNaN(f.Lines[0].Values[2]) || f.Lines[0].Name != "used_ratio" {
		t.Errorf("%+v", f)
	}
	if f := query(t, s, Query{Match: named("used_ratio"), From: c.now().AddDate(-1, 0, 0), To: c.now()}); len(f.At) > 1001 || f.Step < 8*time.Hour {
		t.Errorf("a year: step %s, %d points", f.Step, len(f.At))
	}
}

func TestQueriesThatAreRefused(t *testing.T) {
	s, c, _ := asking(t)
	good := Query{Match: named("used_ratio"), From: c.now().Add(-time.Hour), To: c.now()}
	for what, change := range map[string]func(*Query){
		"no name":     func(q *Query) { q.Match = []Match{{"host", "=", "h0"}} },
		"backwards":   func(q *Query) { q.From, q.To = q.To, q.From },
		"function":    func(q *Query) { q.Func = "stddev" },
		"aggregate":   func(q *Query) { q.Agg = "p50" },
		"operator":    func(q *Query) { q.Match = append(q.Match, Match{"host", "~", "x"}) },
		"expression":  func(q *Query) { q.Match = append(q.Match, Match{"host", "=~", "("}) },
		"brackets":    func(q *Query) { q.Match = append(q.Match, Match{"host", "=~", "x)|(y"}) },
		"short step":  func(q *Query) { q.Step = time.Millisecond },
		"many points": func(q *Query) { q.From, q.Step = q.From.AddDate(-1, 0, 0), time.Second },
		"many series": func(q *Query) { q.Limit = 5 },
	} {
		q := good
		change(&q)
		if _, err := s.Query(context.Background(), q); fail.Code(err) != fail.Usage {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestKnownAfterRestart: what the store knows of series does not hang on memory.
func TestKnownAfterRestart(t *testing.T) {
	s, c, dsn := asking(t)
	check := func(what string) {
		t.Helper()
		infos := must(s.Series(context.Background(), named("used_ratio"), time.Time{}, time.Time{}, 0))
		if len(infos) != 6 || !infos[0].First.Equal(at("2026-03-01 10:00:00")) || infos[0].Last.Sub(at("2026-03-01 10:59:00")).Abs() > time.Minute {
			t.Errorf("%s: %d series, %+v", what, len(infos), infos[0])
		}
		last := must(s.Last(context.Background(), []Match{{"__name__", "=", "reads_total"}, {"host", "=", "h2"}}))
		if len(last) != 2 || last[1].Point != pt(at("2026-03-01 10:59:00"), 3*59*60) {
			t.Errorf("%s: last %+v", what, last)
		}
		if n := len(must(s.Series(context.Background(), nil, at("2026-03-01 12:00:00"), time.Time{}, 0))); n != 0 {
			t.Errorf("%s: %d series after the end", what, n)
		}
		if n := must(s.Names(context.Background(), nil)); !slices.Equal(n, []string{"reads_total", "used_ratio"}) {
			t.Errorf("%s: names %v", what, n)
		}
		if v := must(s.LabelValues(context.Background(), "disk", named("used_ratio"))); !slices.Equal(v, []string{"d0", "d1"}) {
			t.Errorf("%s: disks %v", what, v)
		}
	}
	again := func() {
		s.Close()
		s = openStore(t, dsn, c)
	}
	check("at once")
	again()
	check("hot, after a restart")
	c.add(3 * time.Hour)
	maintain(t, s)
	again()
	check("packed, after a restart")
	c.set(at("2026-03-20 00:00:00"))
	write(t, s, batch(row(series("z"), pt(c.now().Add(-72*time.Hour), 1), pt(c.now(), 1))))
	maintain(t, s)
	maintain(t, s)
	do(t, dial(t, dsn), "delete from headroom.series where name = 'z'")
	again()
	if one[int64](t, dial(t, dsn), "select count(*) from headroom.store_raw where at < '2026-03-02'") != 0 {
		t.Error("points are not dropped: the next check would say nothing")
	}
	check("dropped but for days, after a restart")
}

func TestMarksAndFindings(t *testing.T) {
	ctx := context.Background()
	c := newClock("2026-03-01 10:00:00")
	s := openStore(t, base(t, 0), c)
	m := Mark{At: c.now(), Kind: "change", Host: "a", Key: "c1", Text: "max_wal_size=10GB", Link: "/journal/c1"}
	for _, text := range []string{"first", m.Text} {
		m.Text = text
		if err := s.AddMarks(ctx, []Mark{m, {At: c.now().Add(time.Hour), Kind: "boot", Host: "a", Key: "b1"}}); err != nil {
			t.Fatal(err)
		}
	}
	if got := must(s.Marks(ctx, c.now(), c.now().Add(time.Hour))); len(got) != 1 || got[0] != m {
		t.Errorf("%+v", got)
	}
	for i, body := range []string{`[{"x": 1}]`, `[{"x":1}]`, `[]`} {
		for _, host := range []string{"a", "b"} {
			if err := s.PutFindings(ctx, Findings{Host: host, At: c.now().Add(time.Duration(i) * time.Minute), Body: json.RawMessage(body)}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := must(s.Findings(ctx)); len(got) != 2 || got[1].Host != "b" || string(got[1].Body) != "[]" {
		t.Errorf("%+v", got)
	}
	if got := must(s.FindingHistory(ctx, "a", 10)); len(got) != 2 || !got[1].At.Equal(c.now()) {
		t.Errorf("the same findings are kept twice, or changed ones are not: %+v", got)
	}
	if err := s.PutFindings(ctx, Findings{Host: "a", At: c.now(), Body: json.RawMessage(`{`)}); err == nil {
		t.Error("broken JSON is taken")
	}
}

// TestReadsWhilePacking: at no moment does a query miss a point or see one
// twice, while points are written, packed and rolled up.
func TestReadsWhilePacking(t *testing.T) {
	c := newClock("2026-03-01 00:00:00")
	s := openStore(t, base(t, 0), c, func(o *Options) { o.Retention = must(ParseRetention("raw:60d,1m:90d")) })
	x := series("x")
	start := c.now()
	stop, done := make(chan struct{}), make(chan struct{})
	n := make(chan int64, 1)
	n <- 0
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
			}
			before := <-n
			n <- before
			f, err := s.Query(context.Background(), Query{Match: named("x"), From: start, To: start.AddDate(0, 0, 60), Step: day, Func: "count"})
			after := <-n
			n <- after
			sum := 0.0
			for _, l := range f.Lines {
				for _, v := range l.Values {
					if v == v {
						sum += v
					}
				}
			}
			if err != nil || sum < float64(before) || sum > float64(after)+1 {
				t.Errorf("%v points seen, %d to %d written, %v", sum, before, after, err)
				return
			}
		}
	}()
	for end := time.Now().Add(4 * time.Second); time.Now().Before(end); {
		write(t, s, batch(row(x, metric.Point{At: c.now().UnixMilli(), Value: 1})))
		<-n
		n <- (c.now().UnixMilli()-start.UnixMilli())/(20*60_000) + 1
		c.add(20 * time.Minute)
		maintain(t, s)
	}
	close(stop)
	<-done
}

// Each function is read with the columns that it needs, at each resolution.
func TestEachFunctionAtEachResolution(t *testing.T) {
	c := newClock("2026-03-01 00:00:00")
	s := openStore(t, base(t, 0), c)
	start, g := c.now(), series(`level{host="a"}`)
	var ps []metric.Point
	for i := range 3 * 24 * 12 { // every 5 minutes: the day's last minute is of more than one kind
		ps = append(ps, pt(start.Add(time.Duration(i)*5*time.Minute+time.Duration(i%3)*time.Second), float64(i*i%101)+0.5))
	}
	n := series(`jobs_total{host="a"}`)
	var counted []metric.Point
	for i, p := range ps {
		counted = append(counted, metric.Point{At: p.At, Value: float64(10*i + i%7)})
	}
	c.set(start.Add(3*24*time.Hour + time.Hour))
	write(t, s, batch(row(g, ps...), row(n, counted...)))
	maintain(t, s)
	for _, step := range []time.Duration{10 * time.Minute, time.Hour, 24 * time.Hour} {
		for fn, of := range map[string]func([]float64) float64{
			"count": func(v []float64) float64 { return float64(len(v)) },
			"sum":   sumOf, "avg": func(v []float64) float64 { return sumOf(v) / float64(len(v)) },
			"min": slices.Min[[]float64], "max": slices.Max[[]float64], "last": func(v []float64) float64 { return v[len(v)-1] },
			"p50": func(v []float64) float64 { slices.Sort(v); return v[(len(v)-1)/2] },
		} {
			if fn == "p50" && step < time.Hour {
				continue // minutes have no quantiles
			}
			f := query(t, s, Query{Match: named("level"), From: start, To: start.Add(72 * time.Hour), Step: step, Func: fn})
			if f.Resolution == "raw" {
				t.Errorf("%s by %s is made of points", fn, step)
			}
			for i, got := range f.Lines[0].Values {
				if want := of(within(ps, f.At[i], step)); math.Abs(got-want) > 1e-9*math.Abs(want) && (fn != "p50" || math.Abs(got-want) > 0.021*want) {
					t.Fatalf("%s by %s, bucket %d: %v, want %v", fn, step, i, got, want)
				}
			}
		}
		f := query(t, s, Query{Match: named("jobs_total"), From: start, To: start.Add(72 * time.Hour), Step: step, Func: "increase"})
		if got, want := sumOf(f.Lines[0].Values), counted[len(counted)-1].Value-counted[0].Value; got != want {
			t.Errorf("increase by %s, made of %s: %v, want %v", step, f.Resolution, got, want)
		}
	}
}

func sumOf(v []float64) (sum float64) {
	for _, x := range v {
		sum += x
	}
	return sum
}

func within(ps []metric.Point, at int64, width time.Duration) (out []float64) {
	for _, p := range ps {
		if p.At >= at && p.At < at+width.Milliseconds() {
			out = append(out, p.Value)
		}
	}
	return out
}
