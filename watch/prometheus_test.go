package watch

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"headroom/host"
	"headroom/testkit"
	"headroom/testkit/need"
	"headroom/web/auth"
)

// exporter is a program that Prometheus scrapes: with all kinds of series that
// a sender may have, and one whose value says how often it was scraped.
type exporter struct {
	*httptest.Server
	scrapes atomic.Int64
	passing prometheus.Gauge // taken away in the middle
	all     *prometheus.Registry
}

func startExporter(t *testing.T) *exporter {
	t.Helper()
	e := &exporter{all: prometheus.NewRegistry()}
	odd := func(name string, text string) {
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Fatal(err)
		}
		g := prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: "x"})
		g.Set(v)
		e.all.MustRegister(g)
	}
	odd("test_nan", "NaN")
	odd("test_infinite", "+Inf")
	e.passing = prometheus.NewGauge(prometheus.GaugeOpts{Name: "test_passing", Help: "x"})
	classic := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "test_classic_seconds", Help: "x", Buckets: []float64{0.1, 1}})
	native := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "test_native_seconds", Help: "x", NativeHistogramBucketFactor: 1.1})
	for _, h := range []prometheus.Histogram{classic, native} {
		h.(prometheus.ExemplarObserver).ObserveWithExemplar(0.5, prometheus.Labels{"trace": "7"})
	}
	e.all.MustRegister(e.passing, classic, native, prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "test_scrapes_total", Help: "x"},
		func() float64 { return float64(e.scrapes.Add(1)) }))
	e.Server = httptest.NewServer(promhttp.HandlerFor(e.all, promhttp.HandlerOpts{EnableOpenMetrics: true}))
	t.Cleanup(e.Close)
	return e
}

// startPrometheus runs a Prometheus that scrapes an exporter and itself and
// writes to url; it returns its address.
func startPrometheus(t *testing.T, e *exporter, url, tokenFile string) string {
	t.Helper()
	dir, own := t.TempDir(), fmt.Sprintf("127.0.0.1:%d", testkit.Port(t))
	text := fmt.Sprintf(`
global: {scrape_interval: 250ms, scrape_timeout: 200ms}
scrape_configs:
  - {job_name: exporter, static_configs: [{targets: [%q]}]}
  - {job_name: prometheus, scrape_interval: 1s, static_configs: [{targets: [%q]}]}
remote_write:
  - url: %s/api/v1/write
    authorization: {credentials_file: %s}
    send_exemplars: true
    send_native_histograms: true
    metadata_config: {send_interval: 1s}
    queue_config: {batch_send_deadline: 500ms, max_backoff: 500ms}
`, e.Listener.Addr().String(), own, url, tokenFile)
	conf := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	testkit.Run(t, nil, "prometheus", "--config.file="+conf, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+own,
		"--enable-feature=native-histograms,exemplar-storage", "--log.level=error")
	return "http://" + own
}

// figure reads one metric off a page of metrics, the sum over its labels; -1
// if it is not there.
func figure(t *testing.T, url, token, name string) float64 {
	t.Helper()
	req, err := http.NewRequest("GET", url+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return -1
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(res.Body)
	sum, found := 0.0, false
	for line := range strings.Lines(string(text)) {
		rest, ok := strings.CutPrefix(line, name)
		if !ok || rest[0] != ' ' && rest[0] != '{' {
			continue
		}
		v, err := strconv.ParseFloat(strings.TrimSpace(rest[strings.LastIndexByte(rest, ' '):]), 64)
		if err != nil {
			t.Fatal(err)
		}
		sum, found = sum+v, true
	}
	if !found {
		return -1
	}
	return sum
}

// wanting is a server in front of one that is away: it says so, as a proxy
// does, and counts.
func wanting(t *testing.T, addr string) (asked *atomic.Int64, stop func()) {
	t.Helper()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	asked = &atomic.Int64{}
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.WriteHeader(http.StatusServiceUnavailable)
	})}
	go func() { _ = srv.Serve(l) }()
	return asked, func() { _ = srv.Close() }
}

// TestARealPrometheusWrites: a stock Prometheus brings all that it has, with
// nothing lost through a restart; what is not taken is refused once and not
// sent again and again.
func TestARealPrometheusWrites(t *testing.T) {
	need.Have(t, "prometheus")
	d := testDirs(t)
	s := startSite(t, Options{Dirs: d, NoCollect: true})
	file := filepath.Join(t.TempDir(), "token")
	tokens, err := Tokens(d)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := tokens.Create("prometheus", auth.Write)
	if err == nil {
		err = os.WriteFile(file, []byte(secret), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	e := startExporter(t)
	e.passing.Set(1)
	prom := startPrometheus(t, e, s.url, file)
	s.until("its own metrics in the store", 60*time.Second, func() bool {
		return s.points("prometheus_build_info") > 0 && s.points("test_classic_seconds_bucket") > 0
	})
	e.all.Unregister(e.passing)
	for _, name := range []string{"headroom_ingest_stale_markers_total", "headroom_ingest_not_numbers_total", "headroom_ingest_rejected_points_total"} {
		s.until(name, 30*time.Second, func() bool { return figure(t, s.url, s.token, name) > 0 })
	}
	// The native histograms: refused with 400, and then let go.
	s.until("Prometheus counts what was refused", 30*time.Second, func() bool { return figure(t, prom, "", "prometheus_remote_storage_histograms_failed_total") > 3 })
	for _, name := range []string{"samples", "histograms", "exemplars"} {
		if n := figure(t, prom, "", "prometheus_remote_storage_"+name+"_retried_total"); n != 0 {
			t.Errorf("%g %s were sent again after a 400", n, name)
		}
	}
	refused := figure(t, s.url, s.token, "headroom_ingest_rejected_points_total")
	s.stop()

	// Nobody there, then somebody who says 503, then the same server again.
	before := e.scrapes.Load()
	need.Eventually(t, 30*time.Second, "scrapes while nobody answers", func() bool { return e.scrapes.Load() > before+8 })
	asked, end := wanting(t, strings.TrimPrefix(s.url, "http://"))
	need.Eventually(t, 30*time.Second, "requests that came again after a 503", func() bool {
		return asked.Load() > 5 && figure(t, prom, "", "prometheus_remote_storage_samples_retried_total") > 0
	})
	end()
	missed := e.scrapes.Load()
	s = startSite(t, Options{Dirs: d, NoCollect: true, Listen: strings.TrimPrefix(s.url, "http://")})
	s.until("it goes on", 60*time.Second, func() bool { return newestScrape(t, d) > missed+4 })
	complete(t, d)
	t.Logf("%d scrapes, %d of them while it was away; %g native histograms refused, %g NaN and infinities dropped", e.scrapes.Load(), missed-before,
		refused, figure(t, s.url, s.token, "headroom_ingest_not_numbers_total"))
}

// scraped is what the store has of the exporter's count, by time.
func scraped(t *testing.T, d host.Dirs) (list []int64) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), storeDSN(d))
	if err != nil {
		return nil
	}
	defer c.Close(context.WithoutCancel(t.Context()))
	rows, err := c.Query(t.Context(), "select p.value::bigint from headroom.point p join headroom.series s on s.id = p.series where s.name = 'test_scrapes_total' order by p.at")
	if err == nil {
		list, err = pgx.CollectRows(rows, pgx.RowTo[int64])
	}
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func newestScrape(t *testing.T, d host.Dirs) int64 {
	list := scraped(t, d)
	if len(list) == 0 {
		return 0
	}
	return list[len(list)-1]
}

// complete checks that the store has each scrape once.
func complete(t *testing.T, d host.Dirs) {
	t.Helper()
	list := scraped(t, d)
	for i, v := range list {
		if i > 0 && v != list[i-1]+1 {
			t.Errorf("after scrape %d comes %d", list[i-1], v)
		}
	}
}
