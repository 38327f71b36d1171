package api

import (
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/golang/snappy"
	"google.golang.org/protobuf/encoding/protowire"
)

type remoteSample struct {
	v  float64
	at int64
}

// remote writes one TimeSeries as Prometheus does.
func remoteSeries(labels map[string]string, order []string, samples ...remoteSample) []byte {
	var ts []byte
	for _, k := range order {
		var l []byte
		l = protowire.AppendTag(l, 1, protowire.BytesType)
		l = protowire.AppendString(l, k)
		l = protowire.AppendTag(l, 2, protowire.BytesType)
		l = protowire.AppendString(l, labels[k])
		ts = protowire.AppendTag(ts, 1, protowire.BytesType)
		ts = protowire.AppendBytes(ts, l)
	}
	for _, s := range samples {
		var m []byte
		m = protowire.AppendTag(m, 1, protowire.Fixed64Type)
		m = protowire.AppendFixed64(m, math.Float64bits(s.v))
		m = protowire.AppendTag(m, 2, protowire.VarintType)
		m = protowire.AppendVarint(m, uint64(s.at))
		ts = protowire.AppendTag(ts, 2, protowire.BytesType)
		ts = protowire.AppendBytes(ts, m)
	}
	return ts
}

func writeRequest(series ...[]byte) []byte {
	var req []byte
	for _, s := range series {
		req = protowire.AppendTag(req, 1, protowire.BytesType)
		req = protowire.AppendBytes(req, s)
	}
	var meta []byte // metadata, as Prometheus sends now and then
	meta = protowire.AppendTag(meta, 1, protowire.VarintType)
	meta = protowire.AppendVarint(meta, 1)
	req = protowire.AppendTag(req, 3, protowire.BytesType)
	return protowire.AppendBytes(req, meta)
}

func (s *stand) remote(t testing.TB, msg []byte) (int, receipt) {
	t.Helper()
	status, body, _ := s.do(t, "POST", "/api/v1/write", snappy.Encode(nil, msg), "Content-Encoding", "snappy", "Content-Type", "application/x-protobuf", "X-Prometheus-Remote-Write-Version", "0.1.0")
	return status, readReceipt(t, body)
}

func TestRemoteWrite(t *testing.T) {
	s := serve(t, nil)
	now := time.Now().Truncate(time.Second)
	labels := map[string]string{"__name__": "up", "instance": "web1:9100", "job": "node"}
	order := []string{"__name__", "instance", "job"}
	msg := writeRequest(
		remoteSeries(labels, order, remoteSample{1, now.UnixMilli()}, remoteSample{0.5, now.UnixMilli() + 1000}),
		remoteSeries(map[string]string{"__name__": "go_x", "host": "db1", "instance": "other:1"}, []string{"__name__", "host", "instance"}, remoteSample{math.Float64frombits(staleMarker), now.UnixMilli()}, remoteSample{-7, now.UnixMilli()}),
	)
	for range 2 { // the second time by the texts that are known
		status, r := s.remote(t, msg)
		if status != 200 || r.Accepted != 3 || r.Stale != 1 {
			t.Fatalf("%d %+v", status, r)
		}
		got := texts(s.queued(t))
		for key, want := range map[string]float64{
			`up{host="web1",instance="web1:9100",job="node"} ` + now.UTC().Format("15:04:05.000"):                  1,
			`up{host="web1",instance="web1:9100",job="node"} ` + now.Add(time.Second).UTC().Format("15:04:05.000"): 0.5,
			`go_x{host="db1",instance="other:1"} ` + now.UTC().Format("15:04:05.000"):                              -7,
		} {
			if v, ok := got[key]; !ok || v != want {
				t.Errorf("%s: %g %t; there are %v", key, v, ok, got)
			}
		}
	}
}

func TestRemoteWriteRefuses(t *testing.T) {
	s := serve(t, nil)
	now := time.Now().UnixMilli()
	up := map[string]string{"__name__": "up", "instance": "a"}
	good := remoteSeries(up, []string{"__name__", "instance"}, remoteSample{1, now})
	bad := map[string][]byte{
		"older than":        remoteSeries(up, []string{"__name__", "instance"}, remoteSample{1, 5}),
		"ahead of":          remoteSeries(up, []string{"__name__", "instance"}, remoteSample{1, now + 1e10}),
		"metric name":       remoteSeries(map[string]string{"a": "b"}, []string{"a"}, remoteSample{1, now}),
		"given twice":       remoteSeries(map[string]string{"__name__": "x", "a": "b"}, []string{"__name__", "a", "a"}, remoteSample{1, now}),
		"UTF-8":             remoteSeries(map[string]string{"__name__": "x", "a": "\xff"}, []string{"__name__", "a"}, remoteSample{1, now}),
		"native histograms": append(remoteSeries(up, []string{"__name__"}), protowire.AppendBytes(protowire.AppendTag(nil, 4, protowire.BytesType), nil)...),
	}
	for why, series := range bad {
		status, r := s.remote(t, writeRequest(good, series))
		if status != 400 || r.Accepted != 1 || r.Rejected != 1 || !strings.Contains(r.Rejects[0].Reason, why) || r.Rejects[0].Index != 1 {
			t.Errorf("%s: %d %+v", why, status, r)
		}
	}
	odd := remoteSeries(up, []string{"__name__", "instance"}, remoteSample{math.NaN(), now}, remoteSample{math.Inf(1), now}, remoteSample{math.Inf(-1), now})
	if status, r := s.remote(t, writeRequest(good, odd)); status != 200 || r.Accepted != 1 || r.Odd != 3 || r.Rejected != 0 {
		t.Errorf("what a healthy Prometheus sends, too: %d %+v", status, r)
	}
	for _, noise := range []string{"x", "\x0a\x05abc", "\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"} {
		if status, r := s.remote(t, []byte(noise)); status != 400 || r.Accepted != 0 {
			t.Errorf("%q: %d %+v", noise, status, r)
		}
	}
	huge := append(snappyHead(60<<20), make([]byte, 1000)...)
	if status, _, _ := s.do(t, "POST", "/api/v1/write", huge, "Content-Encoding", "snappy"); status != 400 {
		t.Errorf("a block that claims 60 MB: %d", status)
	}
	if status, _, _ := s.do(t, "POST", "/api/v1/write", snappyHead(1<<31), "Content-Encoding", "snappy"); status != 413 {
		t.Errorf("a block that claims 2 GB: %d", status)
	}
	if status, _, _ := s.do(t, "POST", "/api/v1/write", writeRequest(good)); status != http.StatusUnsupportedMediaType {
		t.Errorf("without snappy: %d", status)
	}
	if status, _, _ := s.do(t, "POST", "/api/v1/write", nil, "Content-Encoding", "snappy", "Content-Type", "application/x-protobuf;proto=io.prometheus.write.v2.Request"); status != http.StatusUnsupportedMediaType {
		t.Errorf("version 2: %d", status)
	}
}

func snappyHead(n uint64) []byte { return protowire.AppendVarint(nil, n) }
