package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"headroom/metric"
	"headroom/queue"
	"headroom/web/live"
)

// sinkQueue takes everything at once: what is measured is the reading.
type sinkQueue struct{ queue.Queue }

func (sinkQueue) Put(context.Context, []byte) error { return nil }

// manyLines are points of hosts × 20 series, one a line.
func manyLines(hosts int, now time.Time) []byte {
	var b bytes.Buffer
	for h := range hosts {
		for m := range 20 {
			fmt.Fprintf(&b, `{"name":"host_disk_read_bytes_total","labels":{"host":"web%03d","device":"sd%c","part":"%d"},"at":%d,"value":%d.5}`+"\n", h, 'a'+m%4, m, now.UnixMilli(), 1000*h+m)
		}
	}
	return b.Bytes()
}

func benchIntake(b *testing.B, read func(in *intake)) {
	a := New(Parts{Host: "here", Queue: sinkQueue{}, Hub: live.New(live.Options{})})
	defer a.Close()
	points := 0
	b.ReportAllocs()
	for b.Loop() {
		in := &intake{API: a, receipt: &receipt{}, now: time.Now(), host: "here", hostSet: []metric.Label{{Name: "host", Value: "here"}}, ends: 1 << 60}
		in.by = &bringer{budget: 1 << 20}
		in.b = newBuilder(b.Context(), a, "here", nil)
		read(in)
		if err := in.b.done(); err != nil || in.Rejected > 0 {
			b.Fatal(err, in.Rejects)
		}
		points += in.b.puts.points
	}
	b.ReportMetric(float64(points)/b.Elapsed().Seconds(), "points/s")
}

func BenchmarkLines(b *testing.B) {
	text := manyLines(1000, time.Now())
	benchIntake(b, func(in *intake) {
		if err := in.lines(bytes.NewReader(text)); err != nil {
			b.Fatal(err)
		}
	})
}

func BenchmarkCompactLines(b *testing.B) {
	var text bytes.Buffer
	now := time.Now().UnixMilli()
	for s := range 200 {
		fmt.Fprintf(&text, `{"name":"host_disk_read_bytes_total","labels":{"host":"web%03d"},"points":[`, s)
		for k := range 100 {
			if k > 0 {
				text.WriteByte(',')
			}
			fmt.Fprintf(&text, "[%d,%d.25]", now-int64(100-k)*1000, k*s)
		}
		text.WriteString("]}\n")
	}
	benchIntake(b, func(in *intake) {
		if err := in.lines(bytes.NewReader(text.Bytes())); err != nil {
			b.Fatal(err)
		}
	})
}

// What one line costs to read, by our scanner and by encoding/json.
func BenchmarkReadOneLine(b *testing.B) {
	line := bytes.TrimSpace(manyLines(1, time.Now())[:150])
	line = line[:bytes.IndexByte(line, '\n')]
	b.Run("scanner", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var f fields
			if why := f.read(&scan{b: line}); why != "" {
				b.Fatal(why)
			}
		}
	})
	b.Run("encoding-json", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var v struct {
				Name   string
				Labels map[string]string
				At     int64
				Value  float64
			}
			if err := json.Unmarshal(line, &v); err != nil {
				b.Fatal(err)
			}
		}
	})
}
