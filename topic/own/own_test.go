package own

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"headroom/host"
	"headroom/metric"
	"headroom/testkit"
)

func TestOurProcessIsMeasured(t *testing.T) {
	held := make([]byte, 8<<20)
	r := host.Open(host.Options{})
	out := metric.NewOut(process, time.Now())
	if err := process.Collect(t.Context(), r, out); err != nil || out.Err() != nil || len(out.Gaps) > 0 {
		t.Fatal(err, out.Err(), out.Gaps)
	}
	got := map[string]float64{}
	for _, row := range out.Rows {
		got[row.Series.Key()] = row.Points[0].Value
	}
	for name, within := range map[string][2]float64{
		"headroom_process_resident_bytes": {1 << 20, 4 << 30}, "headroom_process_heap_bytes": {float64(len(held)), 4 << 30}, "headroom_process_goroutines": {2, 1e4},
		"headroom_process_open_files": {3, 1e5}, "headroom_process_open_files_limit": {16, 1e19}, `headroom_process_cpu_seconds_total{mode="user"}`: {0, 1e6},
		`headroom_process_cpu_seconds_total{mode="system"}`: {0, 1e6},
	} {
		if v, ok := got[name]; !ok || v < within[0] || v > within[1] {
			t.Errorf("%s = %v (there: %v), want it within %v", name, v, ok, within)
		}
	}
	runtime.KeepAlive(held)
}

func TestCollectorsAreReported(t *testing.T) {
	if got := testkit.Read(t, &host.Fake{}, rounds); !strings.Contains(got, "nobody runs them here") {
		t.Errorf("without a runner: %s", got)
	}
	ctx := WithReports(t.Context(), func() []Report {
		return []Report{{Collector: "disk.io", Took: 20 * time.Millisecond, OK: true, Rounds: 7}, {Collector: "postgres.wal", Server: "5432", Skipped: 3, Gaps: 2}}
	}, func() int64 { return 5 })
	out := metric.NewOut(rounds, time.Now(), metric.Label{Name: "host", Value: "h"})
	if err := rounds.Collect(ctx, &host.Fake{}, out); err != nil || out.Err() != nil {
		t.Fatal(err, out.Err())
	}
	got := map[string]float64{}
	for _, row := range out.Rows {
		got[row.Series.Key()] = row.Points[0].Value
	}
	for key, want := range map[string]float64{
		`headroom_collector_duration_seconds{collector="disk.io",host="h"}`: 0.02, `headroom_collector_success{collector="disk.io",host="h"}`: 1,
		`headroom_collector_rounds_total{collector="disk.io",host="h"}`: 7, `headroom_collector_success{collector="postgres.wal",host="h",of="5432"}`: 0,
		`headroom_collector_skipped_total{collector="postgres.wal",host="h",of="5432"}`: 3, `headroom_collector_gaps{collector="postgres.wal",host="h",of="5432"}`: 2,
		`headroom_collector_batches_lost_total{host="h"}`: 5,
	} {
		if v, ok := got[key]; !ok || v != want {
			t.Errorf("%s = %v (there: %v), want %v", key, v, ok, want)
		}
	}
}
