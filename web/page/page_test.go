package page

import (
	"context"
	"errors"
	"math"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"headroom/change"
	"headroom/check"
	"headroom/host"
	"headroom/metric"
	"headroom/peer"
	"headroom/queue"
	"headroom/store"
	"headroom/topic/postgres"
	"headroom/web/api"
)

const hostile = `"><img src=x onerror="hacked()"><script>hacked()</script>`

// pagesOf are pages without a store, whose every text is hostile.
func pagesOf(t *testing.T, allow bool) http.Handler {
	t.Helper()
	q, err := queue.Open(t.Context(), queue.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := q.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := q.Put(t.Context(), []byte("no batch")); err != nil {
		t.Fatal(err)
	}
	ms, err := q.Fetch(t.Context(), 1)
	if err == nil {
		err = ms[0].Kill(t.Context(), hostile)
	}
	if err != nil {
		t.Fatal(err)
	}
	fix := change.Spec{ID: "postgres.setting", Args: map[string]string{"a": hostile}}
	age := 3.0
	return New(Options{AllowChanges: allow, Parts: api.Parts{Host: "db1", Version: hostile, Queue: q, Trials: t.TempDir(),
		Store:       func() (api.Store, error) { return nil, errors.New("away: " + hostile) },
		StoreStatus: func(context.Context) (any, error) { return nil, errors.New("away: " + hostile) },
		Worker:      func() api.WorkerState { return api.WorkerState{Trouble: hostile, Since: time.Now()} },
		Journal:     change.OpenJournal(host.Dirs{State: t.TempDir(), Run: t.TempDir()}),
		Findings: func() []peer.Inspection {
			return []peer.Inspection{{Host: hostile, Server: hostile, Outcome: check.Outcome{
				Findings: []check.Finding{{Check: hostile, Subject: hostile, Severity: check.Danger, Summary: hostile, Hint: hostile, Fixes: []change.Spec{fix},
					Try: &check.Try{Change: fix, Workload: hostile}, Evidence: []check.Cite{{Name: hostile, Value: hostile, Source: hostile}}}},
				NotChecked: []check.Unchecked{{Check: hostile, Subject: hostile, Because: hostile}}}}}
		},
		Gaps: func() []metric.Gap {
			return []metric.Gap{{Collector: hostile, Metrics: []string{hostile}, Because: hostile, Hint: hostile}}
		},
		Sessions: func(context.Context, string) ([]postgres.Session, error) {
			return []postgres.Session{{PID: 1, User: hostile, Database: hostile, Application: hostile, Client: hostile, Backend: hostile, State: "active" + hostile, WaitType: hostile, Wait: hostile, Query: hostile, Statement: &age}}, nil
		}}})
}

func fetch(t *testing.T, h http.Handler, path, part string) (int, string) {
	t.Helper()
	r := httptest.NewRequest("GET", path, nil)
	if part != "" {
		r.Header.Set("X-Part", part)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

var tag = regexp.MustCompile(`<(img|script)[ >]`)

func TestWhatIsStoredIsText(t *testing.T) {
	h := pagesOf(t, true)
	shown := 0
	for _, c := range [][2]string{
		{"/", ""}, {"/", "health"}, {"/", "worst"}, {"/", "left"}, {"/host", ""}, {"/disks", ""}, {"/postgres?server=x", ""}, {"/postgres?server=x", "sessions"},
		{"/tables?server=x", "tables"}, {"/queries?server=x", "queries"}, {"/traffic", ""}, {"/queue", ""}, {"/queue", "state"}, {"/findings", ""}, {"/lab", ""}, {"/journal", ""},
		{"/?host=%22%3E%3Cimg%20src=x%3E", ""}, {"/postgres?server=%22%3E%3Cscript%3E", ""}, {"/%3Cscript%3E", ""}, {"/lab/%3Cscript%3E", ""}, {"/journal/%3Cscript%3E", ""}, {"/?from=%3Cscript%3E", ""},
	} {
		status, text := fetch(t, h, c[0], c[1])
		if status >= 500 {
			t.Errorf("%v: %d %s", c, status, text)
		}
		for _, m := range tag.FindAllString(strings.ReplaceAll(text, `<script src="/static/`, ""), -1) {
			t.Errorf("%v: markup came through: %s", c, m)
		}
		shown += strings.Count(text, "onerror=") + strings.Count(text, "&lt;script&gt;")
		if strings.Contains(text, "style=") || strings.Contains(text, "<style") || strings.Contains(text, " onclick") {
			t.Errorf("%v: what the policy forbids stands in the page", c)
		}
	}
	if shown < 20 {
		t.Errorf("the hostile text is shown %d times: the test shows nothing", shown)
	}
}

func TestSetAsideIsListed(t *testing.T) {
	h := pagesOf(t, false)
	if _, text := fetch(t, h, "/queue", "state"); !strings.Contains(text, "onerror=&#34;hacked()") || !strings.Contains(text, "headroom up dead retry --all") || !strings.Contains(text, "could not tell: ") {
		t.Error(text)
	}
}

func TestPartsAlone(t *testing.T) {
	h := pagesOf(t, false)
	if status, text := fetch(t, h, "/", "health"); status != 200 || strings.Contains(text, "<html") || !strings.Contains(text, `id="health"`) {
		t.Errorf("%d %.200s", status, text)
	}
	for _, part := range []string{"none", "../layout", "layout"} {
		if status, _ := fetch(t, h, "/", part); status != 404 {
			t.Errorf("part %q: %d, want 404", part, status)
		}
	}
}

// Nothing is healthy that is not known to be.
func TestHealthOfTheUnknown(t *testing.T) {
	q := pagesOf(t, false)
	if _, text := fetch(t, q, "/", "health"); !strings.Contains(text, "In danger: 1 danger") || !strings.Contains(text, "the store cannot be asked") || !strings.Contains(text, "1 question could not be answered") {
		t.Errorf("%s", text)
	}
	if _, text := fetch(t, q, "/?host=web1", "health"); !strings.Contains(text, "Cannot be told") {
		t.Errorf("a host without samples: %s", text)
	}
	if _, text := fetch(t, q, "/", "left"); strings.Contains(text, "<progress") || strings.Count(text, "could not tell") < 5 {
		t.Errorf("what is left without a store: %s", text)
	}
	h := New(Options{Parts: api.Parts{Host: "db1", Store: func() (api.Store, error) { return nil, errors.New("away") }}})
	if _, text := fetch(t, h, "/", "health"); !strings.Contains(text, "Cannot be told") || !strings.Contains(text, "first checks are under way") {
		t.Errorf("before the first checks: %s", text)
	}
}

func TestButtonsFollowTheRight(t *testing.T) {
	if _, text := fetch(t, pagesOf(t, false), "/findings", ""); strings.Contains(text, "data-allow") || !strings.Contains(text, "data-plan=") {
		t.Error("without --allow-changes a plan can be looked at, and no more")
	}
	if _, text := fetch(t, pagesOf(t, true), "/findings", ""); !strings.Contains(text, `data-allow="yes"`) {
		t.Error("with --allow-changes there is no way to apply")
	}
}

func TestAssetsAreKeptAndSmall(t *testing.T) {
	h := pagesOf(t, false)
	_, page := fetch(t, h, "/", "")
	sum := len(page)
	for _, m := range regexp.MustCompile(`/static/[a-z.]+\?[0-9a-f]{8}`).FindAllString(page, -1) {
		r := httptest.NewRequest("GET", m, nil)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != 200 || !strings.Contains(w.Header().Get("Cache-Control"), "immutable") {
			t.Errorf("%s: %d %v", m, w.Code, w.Header())
		}
		sum += w.Body.Len()
	}
	if sum > 180_000 { // not even compressed
		t.Errorf("page and assets take %d bytes; data has to fit into 300 kB, too", sum)
	}
	for _, path := range []string{"/static/", "/static/none.js", "/static/..%2fpage.go"} {
		if status, _ := fetch(t, h, path, ""); status != 404 {
			t.Errorf("%s: %d", path, status)
		}
	}
}

func TestSelectors(t *testing.T) {
	s := hostScope("a\"b\\c\n").server("x")
	if got, want := s.sel(`m{mode!="idle"}`), `m{host="a\"b\\c\n",server="x",mode!="idle"}`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := (scope)(nil).sel("m"); got != "m" {
		t.Error(got)
	}
}

func TestTimesOfAnAddress(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]string{
		"now": "2026-11-21T12:00:00Z", "-90s": "2026-11-21T11:58:30Z", "-2h": "2026-11-21T10:00:00Z", "-14d": "2026-11-07T12:00:00Z", "2026-01-02T03:04:05.5Z": "2026-01-02T03:04:05.5Z",
	} {
		if got, err := when(text, now); err != nil || got.UTC().Format(time.RFC3339Nano) != want {
			t.Errorf("%s: %s %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"", "-", "-h", "--1h", "-1e30d", "-NaNh", "-1x", "yesterday", "1795269600"} {
		if got, err := when(text, now); err == nil {
			t.Errorf("%q is taken for %s", text, got)
		}
	}
}

// gone is a store that answers unless who asks has gone.
type gone struct{ api.Store }

func (gone) Series(ctx context.Context, _ []store.Match, _, _ time.Time, _ int) ([]store.SeriesInfo, error) {
	return nil, ctx.Err()
}

func (gone) Query(ctx context.Context, q store.Query) (*store.Frame, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return &store.Frame{At: []int64{q.To.Add(-time.Minute).UnixMilli()}, Lines: []store.Line{{Values: []float64{2}}}}, nil
}

// What is kept for all must not be what was cut off when one went away.
func TestOneWhoLeavesSpoilsNothing(t *testing.T) {
	h := New(Options{Parts: api.Parts{Host: "db1", Store: func() (api.Store, error) { return gone{}, nil }}})
	ctx, leave := context.WithCancel(t.Context())
	leave()
	r := httptest.NewRequestWithContext(ctx, "GET", "/", nil)
	r.Header.Set("X-Part", "left")
	h.ServeHTTP(httptest.NewRecorder(), r)
	if _, text := fetch(t, h, "/", "left"); strings.Contains(text, "context canceled") || !strings.Contains(text, "<progress") {
		t.Errorf("after one who left: %.900s", text)
	}
}

// A sample a minute in buckets of 15 s: the empty ones in between are no time
// without work. A statement that ran in one minute of two did half as much.
func TestMeanOfSparseRates(t *testing.T) {
	no := math.NaN()
	got := meanRates([]store.Line{{Values: []float64{no, 100, no, no, no, 200, no}}, {Values: []float64{no, 10, no, no, no, no, no}}})
	if len(got) != 2 || got[0].value != 150 || got[1].value != 5 {
		t.Errorf("%v, want 150 and 5 a second", got)
	}
}
