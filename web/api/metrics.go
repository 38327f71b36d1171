package api

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"headroom/metric"
	"headroom/store"
	"headroom/web/live"
)

// freshFor is how old a collected value may be to be given out: older ones
// would hide that their source is gone.
const freshFor = 5 * time.Minute

// secretLabels carry texts of queries: they do not belong into what any
// scraper may keep.
var secretLabels = []string{"query", "statement"}

// metrics writes what this server knows of itself, and the newest values
// collected on this machine, in Prometheus' text format.
func (a *API) metrics(w http.ResponseWriter, r *http.Request) error {
	x := exposition{}
	a.own(&x, a.queueStatus(r.Context()))
	filter, err := live.NewFilter([]store.Match{{Label: "host", Op: "=", Value: a.Host}})
	if err != nil {
		return err
	}
	x.collected(a.Defs, a.Hub.Last(filter, a.Now().Add(-freshFor).UnixMilli()))
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_, _ = w.Write(x.text) // that the client has gone is nobody's fault
	return nil
}

// exposition is text in the making.
type exposition struct{ text []byte }

func (x *exposition) head(name, kind, help string) {
	help = strings.NewReplacer(`\`, `\\`, "\n", `\n`).Replace(help)
	x.text = fmt.Appendf(x.text, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
}

func (x *exposition) value(key string, v float64) {
	x.text = append(x.text, key...)
	x.text = append(x.text, ' ')
	x.text = strconv.AppendFloat(x.text, v, 'g', -1, 64)
	x.text = append(x.text, '\n')
}

func (x *exposition) one(name, kind, help string, v float64) {
	x.head(name, kind, help)
	x.value(name, v)
}

// own writes the server's own figures.
func (a *API) own(x *exposition, q queueJSON) {
	c := &a.counts
	x.head("headroom_info", "gauge", "Which Headroom this is.")
	x.value(fmt.Sprintf("headroom_info{version=%q}", oneLine(a.Version)), 1)
	x.one("headroom_ingest_points_total", "counter", "Points acknowledged, on disk in the queue.", float64(c.points.Load()))
	x.one("headroom_ingest_rejected_points_total", "counter", "Points refused one by one, with a reason.", float64(c.rejected.Load()))
	x.one("headroom_ingest_stale_markers_total", "counter", "Prometheus stale markers, which are dropped.", float64(c.stale.Load()))
	x.one("headroom_ingest_not_numbers_total", "counter", "NaN and infinite values of remote-write, which are dropped.", float64(c.odd.Load()))
	x.one("headroom_ingest_refused_series_total", "counter", "Times that a new series was refused because its token's budget was used up.", float64(c.over.Load()))
	x.one("headroom_ingest_batches_total", "counter", "Batches acknowledged.", float64(c.batches.Load()))
	x.one("headroom_ingest_bytes_total", "counter", "Bytes of encoded batches put into the queue.", float64(c.bytes.Load()))
	x.one("headroom_ingest_active_series", "gauge", "Series that brought points within a day.", float64(a.book.size()))
	x.one("headroom_live_streams", "gauge", "Open live streams.", float64(a.Hub.Lookers()))
	x.head("headroom_http_requests_total", "counter", "Answers by class of status.")
	for _, class := range []string{"2xx", "3xx", "4xx", "5xx"} {
		n := 0.0
		if v, ok := a.answered.Load(class); ok {
			n = float64(v.(*atomic.Int64).Load())
		}
		x.value(fmt.Sprintf("headroom_http_requests_total{class=%q}", class), n)
	}
	if q.Because == "" {
		x.one("headroom_queue_messages", "gauge", "Batches that wait for the store.", float64(q.Messages))
		x.one("headroom_queue_bytes", "gauge", "Bytes on disk of what waits.", float64(q.Bytes))
		x.one("headroom_queue_limit_bytes", "gauge", "Bytes that the queue may hold.", float64(q.Limit))
		x.one("headroom_queue_dead_letters", "gauge", "Batches set aside for good.", float64(q.Dead))
		x.one("headroom_queue_paused", "gauge", "1 while the queue takes nothing.", truth(q.Paused != ""))
		x.one("headroom_queue_oldest_seconds", "gauge", "Age of the oldest batch that waits; 0 if none does.", a.age(q.Oldest))
	}
	if a.Parts.Worker != nil {
		s := a.Parts.Worker()
		x.one("headroom_stored_points_total", "counter", "Points written to the store.", float64(s.Stored))
		x.one("headroom_store_lag_seconds", "gauge", "From the queue to the commit, of the last round.", s.Lag)
		x.one("headroom_store_up", "gauge", "1 while the store takes samples.", truth(s.Trouble == ""))
	}
}

func (a *API) age(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return max(0, a.Now().Sub(t).Seconds())
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// collected writes the newest values of declared metrics, each metric's
// together, as the format demands. Rows are sorted by key.
func (x *exposition) collected(defs []*metric.Def, rows []metric.Row) {
	by := map[string][]metric.Row{}
	for _, r := range rows {
		by[r.Series.Name] = append(by[r.Series.Name], r)
	}
	seen := map[string]bool{}
	for _, d := range defs {
		if len(by[d.Name]) == 0 || seen[d.Name] || strings.HasPrefix(d.Name, "headroom_") && x.has(d.Name) {
			continue
		}
		seen[d.Name] = true
		x.head(d.Name, string(d.Kind), d.Help)
		keys := map[string]bool{}
		for _, r := range by[d.Name] {
			if key := publicKey(r.Series); !keys[key] {
				keys[key] = true
				x.value(key, r.Points[0].Value)
			}
		}
	}
}

func (x *exposition) has(name string) bool {
	return strings.Contains(string(x.text), "# TYPE "+name+" ")
}

// publicKey is the series' key without labels that carry the text of queries.
func publicKey(s *metric.Series) string {
	if !slices.ContainsFunc(s.Labels, func(l metric.Label) bool { return slices.Contains(secretLabels, l.Name) }) {
		return s.Key()
	}
	left := slices.DeleteFunc(slices.Clone(s.Labels), func(l metric.Label) bool { return slices.Contains(secretLabels, l.Name) })
	p, err := metric.NewSeries(s.Name, left)
	if err != nil {
		return s.Name // cannot be: fewer labels of a good series
	}
	return p.Key()
}
