package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/golang/snappy"
	"google.golang.org/protobuf/encoding/protowire"

	"headroom/metric"
	"headroom/web/api"
)

// One request holds a point of each series of some hosts.
const (
	hosts   = 25
	metrics = 200
)

// made is a format and its bodies, made before the clock runs. Bodies differ
// in their times; batches also in their IDs.
type made struct {
	format, path string
	headers      map[string]string
	all          [][]byte
}

func (m made) body(number int64) []byte { return m.all[int(number)%len(m.all)] }

const variants = 16

var bodies = sync.OnceValue(func() []made {
	out := []made{
		{format: "json-lines", path: "/api/v1/ingest"},
		{format: "json-points", path: "/api/v1/ingest"},
		{format: "remote-write", path: "/api/v1/write", headers: map[string]string{"Content-Encoding": "snappy"}},
		{format: "batch", path: "/api/v1/ingest/batch", headers: map[string]string{"Content-Type": api.BatchType}},
	}
	rng := rand.New(rand.NewPCG(1, 2))
	now := time.Now().UnixMilli()
	for v := range variants {
		at := now - int64(variants-v)*1000
		out[0].all = append(out[0].all, jsonLines(rng, at))
		out[1].all = append(out[1].all, jsonPoints(rng, at))
		out[2].all = append(out[2].all, remoteWrite(rng, at))
		out[3].all = append(out[3].all, batches(rng, at))
	}
	return out
})

func value(rng *rand.Rand) float64 { return math.Round(rng.Float64()*1e7) / 100 }

func jsonLines(rng *rand.Rand, at int64) []byte {
	var b bytes.Buffer
	for h := range hosts {
		for m := range metrics {
			fmt.Fprintf(&b, `{"name":"host_metric_%03d_total","labels":{"host":"web%03d","device":"sda"},"at":%d,"value":%g}`+"\n", m, h, at, value(rng))
		}
	}
	return b.Bytes()
}

// jsonPoints has fifty points of each series of one host in half a series' room.
func jsonPoints(rng *rand.Rand, at int64) []byte {
	var b bytes.Buffer
	const each = 50
	for s := range hosts * metrics / each {
		fmt.Fprintf(&b, `{"name":"host_metric_%03d_total","labels":{"host":"web%03d","device":"sda"},"points":[`, s%metrics, s/metrics)
		for k := range each {
			if k > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, "[%d,%g]", at-int64(each-k)*10_000, value(rng))
		}
		b.WriteString("]}\n")
	}
	return b.Bytes()
}

func remoteWrite(rng *rand.Rand, at int64) []byte {
	var req []byte
	label := func(ts []byte, name, value string) []byte {
		l := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), name)
		l = protowire.AppendString(protowire.AppendTag(l, 2, protowire.BytesType), value)
		return protowire.AppendBytes(protowire.AppendTag(ts, 1, protowire.BytesType), l)
	}
	for h := range hosts {
		for m := range metrics {
			ts := label(nil, "__name__", fmt.Sprintf("host_metric_%03d_total", m))
			ts = label(ts, "device", "sda")
			ts = label(ts, "host", fmt.Sprintf("web%03d", h))
			s := protowire.AppendFixed64(protowire.AppendTag(nil, 1, protowire.Fixed64Type), math.Float64bits(value(rng)))
			s = protowire.AppendVarint(protowire.AppendTag(s, 2, protowire.VarintType), uint64(at))
			ts = protowire.AppendBytes(protowire.AppendTag(ts, 2, protowire.BytesType), s)
			req = protowire.AppendBytes(protowire.AppendTag(req, 1, protowire.BytesType), ts)
		}
	}
	return snappy.Encode(nil, req)
}

// batches has one batch for each host, as agents send.
func batches(rng *rand.Rand, at int64) (out []byte) {
	for h := range hosts {
		b := metric.Batch{ID: metric.NewID(), Origin: fmt.Sprintf("web%03d", h)}
		for m := range metrics {
			s, err := metric.NewSeries(fmt.Sprintf("host_metric_%03d_total", m), []metric.Label{{Name: "host", Value: b.Origin}, {Name: "device", Value: "sda"}})
			if err != nil {
				panic(err) // a name of our own
			}
			b.Rows = append(b.Rows, metric.Row{Series: s, Points: []metric.Point{{At: at, Value: value(rng)}}})
		}
		data := b.Encode(nil)
		out = append(binary.AppendUvarint(out, uint64(len(data))), data...)
	}
	return out
}
