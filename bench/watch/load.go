package main

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"

	"github.com/golang/snappy"

	"headroom/metric"
)

// fleet is simulated hosts with real-looking series: counters that grow by
// something, gauges that wander, some that never change.
type fleet struct {
	names  []*metric.Series // all hosts' series, host after host
	values []float64
	per    int
	rng    *rand.Rand
}

func newFleet(hosts, per int) (*fleet, error) {
	f := &fleet{per: per, rng: rand.New(rand.NewPCG(1, 2))}
	for h := range hosts {
		for s := range per {
			name, more := "sim_disk_read_bytes_total", metric.Label{Name: "device", Value: "sd" + strconv.Itoa(s)}
			switch s % 3 {
			case 1:
				name, more = "sim_memory_used_bytes", metric.Label{Name: "kind", Value: "k" + strconv.Itoa(s)}
			case 2:
				name, more = "sim_limit_count", metric.Label{Name: "of", Value: "o" + strconv.Itoa(s)}
			}
			one, err := metric.NewSeries(name, []metric.Label{{Name: "host", Value: fmt.Sprintf("web-%04d.example", h)}, more})
			if err != nil {
				return nil, err
			}
			f.names = append(f.names, one)
			f.values = append(f.values, float64(f.rng.IntN(1e9)))
		}
	}
	return f, nil
}

func (f *fleet) hosts() int { return len(f.names) / f.per }

// next moves a series on and returns its value.
func (f *fleet) next(i int) float64 {
	switch i % f.per % 3 {
	case 0:
		f.values[i] += float64(f.rng.IntN(1 << 20))
	case 1:
		f.values[i] += float64(f.rng.IntN(8193)-4096) * 4096
	}
	return f.values[i]
}

// batch is one host's samples at one time.
func (f *fleet) batch(host int, at int64) *metric.Batch {
	b := &metric.Batch{ID: metric.NewID(), Origin: "bench"}
	for i := host * f.per; i < (host+1)*f.per; i++ {
		b.Rows = append(b.Rows, metric.Row{Series: f.names[i], Points: []metric.Point{{At: at, Value: f.next(i)}}})
	}
	return b
}

// frame is a batch as agents send it.
func frame(b *metric.Batch) []byte {
	body := b.Encode(nil)
	return append(binary.AppendUvarint(nil, uint64(len(body))), body...)
}

// remote is samples of some hosts as Prometheus remote-write 1.0 sends them:
// a snappy block of a protobuf WriteRequest.
func (f *fleet) remote(from, to int, at []int64) []byte {
	var all, one, part []byte
	for i := from * f.per; i < to*f.per; i++ {
		s := f.names[i]
		one = label(one[:0], &part, "__name__", s.Name)
		for _, l := range s.Labels {
			one = label(one, &part, l.Name, l.Value)
		}
		for _, t := range at {
			part = append(part[:0], 1<<3|1)
			part = binary.LittleEndian.AppendUint64(part, math.Float64bits(f.next(i)))
			part = append(part, 2<<3)
			part = binary.AppendUvarint(part, uint64(t))
			one = field(one, 2, part)
		}
		all = field(all, 1, one)
	}
	return snappy.Encode(nil, all)
}

func field(dst []byte, number int, value []byte) []byte {
	dst = append(dst, byte(number<<3|2))
	dst = binary.AppendUvarint(dst, uint64(len(value)))
	return append(dst, value...)
}

func label(dst []byte, part *[]byte, name, value string) []byte {
	*part = field((*part)[:0], 1, []byte(name))
	*part = field(*part, 2, []byte(value))
	return field(dst, 1, *part)
}
