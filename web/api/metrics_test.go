package api

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"headroom/host"
	"headroom/metric"
	"headroom/testkit/need"
)

var testDefs = []*metric.Def{
	{Name: "host_disk_read_bytes_total", Help: "bytes read\nfrom a disk \\ device", Unit: metric.Bytes, Kind: metric.Counter, Labels: []string{"device"}, Source: "x"},
	{Name: "pg_statement_seconds_total", Help: "time spent in a statement", Unit: metric.Seconds, Kind: metric.Counter, Labels: []string{"queryid", "query"}, Source: "x"},
	{Name: "host_memory_free_bytes", Help: "memory that nobody uses", Unit: metric.Bytes, Kind: metric.Gauge, Source: "x"},
}

func metricsStand(t *testing.T) *stand {
	s := serve(t, func(p *Parts) {
		p.Defs = testDefs
		p.Worker = func() WorkerState { return WorkerState{Stored: 5, Lag: 0.25} }
	})
	old := time.Now().Add(-time.Hour).UnixMilli()
	for _, line := range []string{
		`{"name":"host_disk_read_bytes_total","labels":{"host":"here","device":"sda"},"value":17179869184}`,
		`{"name":"host_disk_read_bytes_total","labels":{"host":"here","device":"we\"ird\\\n</script>"},"value":1.5}`,
		`{"name":"host_disk_read_bytes_total","labels":{"host":"other","device":"sdz"},"value":1}`,
		`{"name":"pg_statement_seconds_total","labels":{"host":"here","queryid":"7","query":"select secret"},"value":3}`,
		`{"name":"undeclared","labels":{"host":"here"},"value":3}`,
		fmt.Sprintf(`{"name":"host_memory_free_bytes","labels":{"host":"here"},"at":%d,"value":3}`, old),
	} {
		if status, r := s.ingest(t, line); status != 200 {
			t.Fatal(status, r)
		}
	}
	return s
}

func TestMetrics(t *testing.T) {
	s := metricsStand(t)
	status, body, h := s.do(t, "GET", "/metrics", nil)
	text := string(body)
	if status != 200 || !strings.HasPrefix(h.Get("Content-Type"), "text/plain; version=0.0.4") {
		t.Fatal(status, h)
	}
	for _, want := range []string{
		"headroom_ingest_points_total 6\n", "headroom_stored_points_total 5\n", "headroom_queue_messages 6\n", "headroom_store_up 1\n",
		`host_disk_read_bytes_total{device="sda",host="here"} 1.7179869184e+10` + "\n", "# TYPE host_disk_read_bytes_total counter\n",
		`pg_statement_seconds_total{host="here",queryid="7"} 3` + "\n",
	} {
		has(t, text, want)
	}
	for _, never := range []string{"secret", "sdz", "undeclared", "host_memory_free_bytes"} {
		if strings.Contains(text, never) {
			t.Errorf("%s is given out", never)
		}
	}
}

func TestMetricsBeforePromtool(t *testing.T) {
	need.Have(t, "promtool")
	s := metricsStand(t)
	_, body, _ := s.do(t, "GET", "/metrics", nil)
	path := filepath.Join(t.TempDir(), "metrics")
	if err := os.WriteFile(path, body, 0o644); err != nil {
		t.Fatal(err)
	}
	in, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := host.Cmd{Argv: []string{"promtool", "check", "metrics"}, Stdin: in}.Run(context.Background(), 1<<20)
	if err != nil || len(out) > 0 {
		t.Errorf("promtool: %v\n%s", err, out)
	}
}
