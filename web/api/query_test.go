package api

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"headroom/pglocal"
	"headroom/store"
	"headroom/testkit/need"
)

// stored is a stand with a real store that holds an hour of three series.
func stored(t *testing.T) (*stand, time.Time) {
	t.Helper()
	s, start, _ := storedIn(t, nil)
	return s, start
}

// storedIn is stored with the server that the store is in.
func storedIn(t *testing.T, settings map[string]string) (*stand, time.Time, *pglocal.Server) {
	t.Helper()
	need.Have(t, "pg")
	srv, err := pglocal.Start(t.Context(), pglocal.Options{NoFsync: true, Settings: settings})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := srv.Stop(); err != nil {
			t.Error(err)
		}
	})
	st, err := store.Open(context.Background(), store.Options{DSN: srv.DSN(), Holder: t.Name()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(st.Close)
	s := serve(t, func(p *Parts) {
		p.Store = func() (Store, error) { return st, nil }
		p.StoreStatus = func(ctx context.Context) (any, error) { return st.Status(ctx) }
	})
	start := time.Now().Add(-time.Hour).Truncate(time.Minute)
	var b strings.Builder
	for i := range 60 {
		at := start.Add(time.Duration(i) * time.Minute).UnixMilli()
		fmt.Fprintf(&b, `{"name":"jobs_total","labels":{"host":"a","kind":"x\"y"},"at":%d,"value":%d}`+"\n", at, i*60)
		fmt.Fprintf(&b, `{"name":"jobs_total","labels":{"host":"b"},"at":%d,"value":%d}`+"\n", at, i*120)
		if i < 30 {
			fmt.Fprintf(&b, `{"name":"temp","labels":{"host":"a"},"at":%d,"value":%d}`+"\n", at, i)
		}
	}
	if status, r := s.ingest(t, b.String()); status != 200 {
		t.Fatal(status, r)
	}
	if err := st.Write(t.Context(), s.queued(t)); err != nil {
		t.Fatal(err)
	}
	if err := st.AddMarks(t.Context(), []store.Mark{{At: start.Add(time.Minute), Kind: "change", Host: "a", Key: "1", Text: "max_wal_size <10GB>"}}); err != nil {
		t.Fatal(err)
	}
	return s, start, srv
}

type frameJSON struct {
	Step       float64
	Resolution string
	Warnings   []string
	At         []int64
	Lines      []struct {
		Name   string
		Labels map[string]string
		Values []*float64
	}
	Error, Hint string
}

func (s *stand) get(t *testing.T, path string, into any) int {
	t.Helper()
	status, text, _ := s.do(t, "GET", path, nil)
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatalf("%s: %v in %.300s", path, err, text)
	}
	return status
}

func TestQueriesOfARealStore(t *testing.T) {
	s, start := stored(t)
	span := fmt.Sprintf("&from=%d&to=%s&step=5m", start.UnixMilli(), url.QueryEscape(start.Add(time.Hour).UTC().Format(time.RFC3339)))
	q := func(text string) string { return "/api/v1/query?match=" + url.QueryEscape(text) + span }

	var f frameJSON
	if status := s.get(t, q("jobs_total{host=~`a|b`}")+"&func=rate&by=host", &f); status != 200 {
		t.Fatal(status, f)
	}
	if len(f.Lines) != 2 || len(f.At) < 12 || f.Step != 300 {
		t.Fatalf("%+v", f)
	}
	for _, l := range f.Lines {
		want := map[string]float64{"a": 1, "b": 2}[l.Labels["host"]]
		if v := l.Values[5]; v == nil || *v < want*0.99 || *v > want*1.01 {
			t.Errorf("rate of %v: %v", l.Labels, l.Values)
		}
	}
	f = frameJSON{}
	if s.get(t, q("temp")+"&func=max", &f); len(f.Lines) != 1 || f.Lines[0].Values[len(f.Lines[0].Values)-1] != nil {
		t.Errorf("a bucket without data is not null: %+v", f)
	}
	f = frameJSON{}
	if s.get(t, q("temp")+"&match=jobs_total&func=count", &f); len(f.Lines) != 3 {
		t.Errorf("two matches: %+v", f)
	}
	f = frameJSON{}
	if s.get(t, q("jobs_total")+"&top=1&func=last", &f); len(f.Lines) != 1 || f.Lines[0].Labels["host"] != "b" {
		t.Errorf("top: %+v", f)
	}
	f = frameJSON{}
	if s.get(t, q("jobs_total")+"&agg=sum&func=rate", &f); len(f.Lines) != 1 || *f.Lines[0].Values[5] < 2.9 {
		t.Errorf("one group of all: %+v", f)
	}
	f = frameJSON{}
	if status := s.get(t, q("nothing_of_that_name"), &f); status != 200 || f.Lines == nil || len(f.Lines) != 0 {
		t.Errorf("an unknown metric: %d %+v", status, f)
	}
	status, text, h := s.do(t, "GET", q("jobs_total")+"&func=last", nil, "Accept", "text/csv")
	rows, err := csv.NewReader(strings.NewReader(string(text))).ReadAll()
	if status != 200 || err != nil || len(rows) < 12 || len(rows[0]) != 3 || rows[0][0] != "at" || rows[0][1] != `jobs_total{host="a",kind="x\"y"}` {
		t.Errorf("csv: %d %v %.200s (%s)", status, err, text, h.Get("Content-Type"))
	}
	s.lists(t, start)
}

// lists asks what else is stored.
func (s *stand) lists(t *testing.T, start time.Time) {
	t.Helper()
	var sr struct {
		Series []seriesJSON
		More   bool
	}
	if s.get(t, "/api/v1/series?match=jobs_total&from=-2h&limit=1", &sr); len(sr.Series) != 1 || !sr.More || sr.Series[0].Labels["host"] != "a" {
		t.Errorf("series: %+v", sr)
	}
	var lv struct{ Values []string }
	if s.get(t, "/api/v1/labels/host", &lv); fmt.Sprint(lv.Values) != "[a b]" {
		t.Errorf("labels: %+v", lv)
	}
	var mk struct{ Marks []store.Mark }
	if s.get(t, "/api/v1/marks?from=-2h", &mk); len(mk.Marks) != 1 || mk.Marks[0].Text != "max_wal_size <10GB>" || !mk.Marks[0].At.Equal(start.Add(time.Minute)) {
		t.Errorf("marks: %+v", mk)
	}
	var st struct {
		OK    bool
		Store struct {
			Series    int64
			Retention string
		}
	}
	if s.get(t, "/api/v1/status", &st); !st.OK || st.Store.Series != 3 || st.Store.Retention == "" {
		t.Errorf("status: %+v", st)
	}
	var ok struct{ OK bool }
	if status := s.get(t, "/api/v1/healthz", &ok); status != 200 || !ok.OK {
		t.Errorf("healthz: %d %+v", status, ok)
	}
}

func TestWrongQuestionsAreNamed(t *testing.T) {
	s := serve(t, nil)
	for path, want := range map[string]string{
		"query":                                "match is missing",
		"query?match=x&form=-2h":               `unknown parameter \"form\"`,
		"query?match=x&from=-2h&from=-1h":      "given 2 times",
		"query?match=x%7B":                     "match",
		"query?match=x%7Ba%3D%22%5Cq%22%7D":    "backquotes",
		"query?match=x&func=median":            "unknown func",
		"query?match=x&agg=all":                "unknown agg",
		"query?match=x&step=0":                 "step",
		"query?match=x&step=-5m":               "step",
		"query?match=x&step=1e300":             "step",
		"query?match=x&from=yesterday":         "from",
		"query?match=x&from=99999999999999999": "from",
		"query?match=x&from=-1h&to=-2h":        "not before",
		"query?match=x&points=12000":           "points",
		"query?match=x&top=-1":                 "top",
		"query?match=x&by=a%20b":               "by",
		"query?match=x&match=y&top=3":          "top with several",
		"query?match=%zz":                      "query string",
		"series":                               "match is missing",
		"labels/a%20b":                         "label",
		"live?match=x&match=y":                 "one match",
		"live?match=%7Ba%3D~%22(%22%7D":        "match a",
		"status?x=1":                           "takes none",
		"marks?from=x":                         "from",
	} {
		status, text, _ := s.do(t, "GET", "/api/v1/"+path, nil)
		if status != http.StatusBadRequest || !strings.Contains(string(text), want) {
			t.Errorf("%s: %d %s, want %s", path, status, text, want)
		}
	}
}

// Away, the store is said to be away: nothing is shown as empty or healthy.
func TestTheStoreIsAway(t *testing.T) {
	s := serve(t, func(p *Parts) {
		p.Store = func() (Store, error) { return nil, errors.New("connection refused") }
		p.Worker = func() WorkerState { return WorkerState{Trouble: "connection refused"} }
	})
	for _, path := range []string{"query?match=x", "series?match=x", "labels/host", "marks"} {
		status, text, h := s.do(t, "GET", "/api/v1/"+path, nil)
		if status != 503 || h.Get("Retry-After") == "" || !strings.Contains(string(text), "connection refused") {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	if status, _, _ := s.do(t, "GET", "/api/v1/healthz", nil); status != 503 {
		t.Errorf("healthz: %d", status)
	}
	var st statusJSON
	if s.get(t, "/api/v1/status", &st); st.OK || len(st.Wrong) != 2 {
		t.Errorf("%+v", st)
	}
	if status, r := s.ingest(t, `{"name":"x","value":1}`); status != 200 {
		t.Errorf("samples are taken all the same: %d %+v", status, r)
	}
	for _, path := range []string{"findings", "journal", "trials", "gaps", "targets"} {
		if status, _, _ := s.do(t, "GET", "/api/v1/"+path, nil); status != 503 {
			t.Errorf("%s is not part of this server, and answers %d", path, status)
		}
	}
}

func TestRoomOfTheQueue(t *testing.T) {
	now := time.Date(2026, 11, 21, 14, 0, 10, 0, time.UTC)
	var f flow
	if _, ok := f.rate(now); ok {
		t.Error("a rate of nothing")
	}
	for range 180 {
		f.note(now, 1000)
		now = now.Add(time.Second)
	}
	if r, ok := f.rate(now); !ok || r < 850 || r > 1150 {
		t.Errorf("rate %g %t, want about 1000", r, ok)
	}
	now = now.Add(time.Hour)
	if r, ok := f.rate(now); !ok || r != 0 {
		t.Errorf("an hour of silence: %g %t", r, ok)
	}
	now = now.Add(-48 * time.Hour) // the clock is set back
	f.note(now, 1)
	if r, ok := f.rate(now.Add(5 * time.Minute)); !ok || r > 1 {
		t.Errorf("after the clock was set back: %g %t", r, ok)
	}
}

func TestTimes(t *testing.T) {
	now := time.Date(2026, 11, 21, 14, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"now": now, "-2h": now.Add(-2 * time.Hour), "-14d": now.Add(-14 * 24 * time.Hour), "-2w": now.Add(-14 * 24 * time.Hour), "-90": now.Add(-90 * time.Second),
		"1763733600000": time.UnixMilli(1763733600000), "2026-11-21T15:00:00+01:00": now, "2026-11-21T15:00:00 01:00": now,
	} {
		if got, err := parseWhen("from", text, now); err != nil || !got.Equal(want) {
			t.Errorf("%s: %s %v", text, got, err)
		}
	}
	for _, text := range []string{"", "-", "--2h", "-0s", "-1y", "-99999999w", "2026-11-21", "1e9", "-NaN", "-Inf", "-1e300", "9999999999999999999", "0000-01-01T00:00:00Z"} {
		if got, err := parseWhen("from", text, now); err == nil {
			t.Errorf("%q is read as %s", text, got)
		}
	}
}
