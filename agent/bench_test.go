package agent

import (
	"context"
	"testing"
	"time"

	"headroom/host"
	"headroom/metric"
	"headroom/topic/all"
)

// BenchmarkRound is one round of all collectors of the machine, encoded.
func BenchmarkRound(b *testing.B) {
	r := host.Open(host.Options{})
	var cs []*metric.Collector
	for _, t := range all.Topics() {
		for _, c := range t.Collectors {
			if c.Of == metric.Host && c.Name != "own.collectors" {
				cs = append(cs, c)
			}
		}
	}
	memory := make([]*metric.Memory, len(cs))
	for i := range memory {
		memory[i] = &metric.Memory{}
	}
	b.ReportAllocs()
	points := 0
	for b.Loop() {
		batch := &metric.Batch{ID: metric.NewID(), Origin: "h"}
		for i, c := range cs {
			out := metric.NewOut(c, time.Now(), metric.Label{Name: "host", Value: "h"})
			out.Memory = memory[i]
			_ = c.Collect(context.Background(), r, out) // what is not here is a gap
			batch.Rows = append(batch.Rows, out.Rows...)
		}
		points = batch.Len()
		_ = batch.Encode(nil)
	}
	b.ReportMetric(float64(points), "points")
}

// BenchmarkFind is one look for what runs here.
func BenchmarkFind(b *testing.B) {
	f := &Finder{Reader: host.Open(host.Options{}), Knock: func(context.Context, metric.Target, string) (Identity, error) { return Identity{}, nil }}
	b.ReportAllocs()
	for b.Loop() {
		f.Find(b.Context())
	}
}
