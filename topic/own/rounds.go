package own

import (
	"context"
	"errors"
	"time"

	"headroom/host"
	"headroom/metric"
)

// Report is how one collector does for one server since the start.
type Report struct {
	Collector, Server string
	Took              time.Duration // the last round
	OK                bool          // the last round read its source
	Rounds, Skipped   int64         // skipped: the round before had not ended
	Gaps              int           // parts that could not be read in the last round
}

type reportsKey struct{}

type tellers struct {
	reports func() []Report
	lost    func() int64
}

// WithReports returns a context by which the collector own.collectors learns
// how all collectors do, and how many batches were given up.
func WithReports(ctx context.Context, reports func() []Report, lost func() int64) context.Context {
	return context.WithValue(ctx, reportsKey{}, tellers{reports, lost})
}

var (
	took = &metric.Def{Name: "headroom_collector_duration_seconds", Unit: metric.Seconds, Kind: metric.Gauge, Labels: []string{"collector", "of"},
		Help: "How long the last round of a collector took.", Source: "Headroom's own clock"}
	reads = &metric.Def{Name: "headroom_collector_success", Unit: metric.Count, Kind: metric.Gauge, Labels: []string{"collector", "of"},
		Help: "1 if the last round of a collector read its source, 0 if not.", Source: "Headroom"}
	done = &metric.Def{Name: "headroom_collector_rounds_total", Unit: metric.Count, Kind: metric.Counter, Labels: []string{"collector", "of"},
		Help: "Rounds that a collector ended.", Source: "Headroom"}
	skips = &metric.Def{Name: "headroom_collector_skipped_total", Unit: metric.Count, Kind: metric.Counter, Labels: []string{"collector", "of"},
		Help: "Rounds left out because the one before had not ended.", Source: "Headroom"}
	lost = &metric.Def{Name: "headroom_collector_batches_lost_total", Unit: metric.Count, Kind: metric.Counter,
		Help: "Batches of samples that were given up because the queue did not take them in time.", Source: "Headroom"}
	holes = &metric.Def{Name: "headroom_collector_gaps", Unit: metric.Count, Kind: metric.Gauge, Labels: []string{"collector", "of"},
		Help: "Parts that a collector could not read in its last round.", Source: "Headroom"}
)

// rounds is how the collectors do; the label "of" is the server they look at.
var rounds = &metric.Collector{
	Name: "own.collectors", Doc: "how each collector does: time, success, rounds left out, gaps; batches given up", Of: metric.Host,
	Every: time.Minute, Defs: []*metric.Def{took, reads, done, skips, lost, holes},
	Collect: func(ctx context.Context, _ host.Reader, out *metric.Out) error {
		tell, ok := ctx.Value(reportsKey{}).(tellers)
		if !ok {
			return errors.New("report on collectors: nobody runs them here")
		}
		out.Add(lost, float64(tell.lost()))
		for _, r := range tell.reports() {
			up := 0.0
			if r.OK {
				up = 1
			}
			out.Add(took, r.Took.Seconds(), r.Collector, r.Server)
			out.Add(reads, up, r.Collector, r.Server)
			out.Add(done, float64(r.Rounds), r.Collector, r.Server)
			out.Add(skips, float64(r.Skipped), r.Collector, r.Server)
			out.Add(holes, float64(r.Gaps), r.Collector, r.Server)
		}
		return nil
	},
}
