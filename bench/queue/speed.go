package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"headroom/metric"
	"headroom/queue"
)

// speed is what one kind did with a number of producers: medians of rounds.
type speed struct {
	Kind      string    `json:"kind"`
	Producers int       `json:"producers"`
	Messages  float64   `json:"messages_per_second"`
	Points    float64   `json:"points_per_second"`
	P50       float64   `json:"put_p50_seconds"`
	P99       float64   `json:"put_p99_seconds"`
	CPU       float64   `json:"cpu_seconds_per_message"`
	Drain     float64   `json:"fetch_and_ack_messages_per_second"`
	Rounds    []float64 `json:"messages_per_second_by_round"`
}

const points = 1000

// batch is a message like those that travel: 1,000 series of one host.
func batch(producer, n int) []byte {
	b := &metric.Batch{ID: metric.NewID(), Origin: "db-12.example.net"}
	at := time.Now().UnixMilli()
	for i := range points {
		s, err := metric.NewSeries(fmt.Sprintf("host_disk_part%d_read_seconds_total", i/40), []metric.Label{
			{Name: "host", Value: fmt.Sprintf("db-%d.example.net", producer)}, {Name: "device", Value: fmt.Sprintf("nvme%dn1", i%40)}})
		if err != nil {
			panic(err)
		}
		v := float64(n*i*1_000_003 + i)
		if i%3 == 0 {
			v = math.Sqrt(v)
		}
		b.Rows = append(b.Rows, metric.Row{Series: s, Points: []metric.Point{{At: at, Value: v}}})
	}
	return b.Encode(nil)
}

func (f *file) measure(ctx context.Context, dir string, d time.Duration, rounds int) error {
	f.Points, f.Bytes, f.Seconds, f.Rounds = points, len(batch(1, 1)), d.Seconds(), rounds
	var err error
	if f.FsyncP50, err = bareFsync(dir, batch(1, 1)); err != nil {
		return err
	}
	all := map[string]*[]round{}
	for range rounds {
		for _, producers := range []int{1, 4, 16} {
			for _, kind := range kinds {
				r, err := oneRound(ctx, filepath.Join(dir, "speed"), kind, producers, d)
				if err != nil {
					return err
				}
				key := fmt.Sprint(kind, producers)
				if all[key] == nil {
					all[key] = &[]round{}
				}
				*all[key] = append(*all[key], r)
			}
		}
	}
	for _, kind := range kinds {
		for _, producers := range []int{1, 4, 16} {
			s := summary(kind, producers, *all[fmt.Sprint(kind, producers)])
			fmt.Printf("%-8s %2d producers: %6.0f messages/s = %9.0f points/s, put p50 %.2f ms p99 %.2f ms, %.0f µs CPU each, read %6.0f messages/s\n",
				kind, producers, s.Messages, s.Points, 1000*s.P50, 1000*s.P99, 1e6*s.CPU, s.Drain)
			f.Speeds = append(f.Speeds, s)
		}
	}
	return nil
}

// round is what one round measured.
type round struct{ rate, p50, p99, cpu, drain float64 }

func summary(kind string, producers int, rs []round) speed {
	mid := func(of func(round) float64) float64 {
		var v []float64
		for _, r := range rs {
			v = append(v, of(r))
		}
		slices.Sort(v)
		return v[len(v)/2]
	}
	s := speed{Kind: kind, Producers: producers, Messages: mid(func(r round) float64 { return r.rate }), P50: mid(func(r round) float64 { return r.p50 }),
		P99: mid(func(r round) float64 { return r.p99 }), CPU: mid(func(r round) float64 { return r.cpu }), Drain: mid(func(r round) float64 { return r.drain })}
	s.Points = s.Messages * points
	for _, r := range rs {
		s.Rounds = append(s.Rounds, r.rate)
	}
	return s
}

func oneRound(ctx context.Context, dir, kind string, producers int, d time.Duration) (r round, err error) {
	defer os.RemoveAll(dir)
	q, err := openers[kind](ctx, queue.Options{Dir: dir, MaxBytes: 8 << 30})
	if err != nil {
		return r, err
	}
	defer q.Close()
	messages := make([][]byte, producers)
	for p := range messages {
		messages[p] = batch(p, 7)
	}
	took := make([][]float64, producers)
	errs := make([]error, producers)
	cpu, start := cpuTime(), time.Now()
	var wg sync.WaitGroup
	for p := range producers {
		wg.Go(func() {
			for time.Since(start) < d && errs[p] == nil {
				t := time.Now()
				errs[p] = q.Put(ctx, messages[p])
				took[p] = append(took[p], time.Since(t).Seconds())
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return r, err
		}
	}
	all := slices.Concat(took...)
	r.rate, r.cpu = float64(len(all))/time.Since(start).Seconds(), (cpuTime()-cpu)/float64(len(all))
	slices.Sort(all)
	r.p50, r.p99 = all[len(all)/2], all[len(all)*99/100]
	start = time.Now()
	for n := 0; n < len(all); {
		ms, err := q.Fetch(ctx, 64)
		if err != nil {
			return r, err
		}
		for _, m := range ms {
			if err := m.Ack(ctx); err != nil {
				return r, err
			}
		}
		n += len(ms)
	}
	r.drain = float64(len(all)) / time.Since(start).Seconds()
	return r, nil
}

// cpuTime is what this process used, in seconds.
func cpuTime() float64 {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

// bareFsync is what the disk alone takes.
func bareFsync(dir string, msg []byte) (float64, error) {
	f, err := os.Create(filepath.Join(dir, "bare"))
	if err != nil {
		return 0, err
	}
	defer f.Close()
	var took []float64
	for range 300 {
		t := time.Now()
		if _, err := f.Write(msg); err != nil {
			return 0, err
		}
		if err := syscall.Fdatasync(int(f.Fd())); err != nil {
			return 0, err
		}
		took = append(took, time.Since(t).Seconds())
	}
	slices.Sort(took)
	return took[len(took)/2], nil
}
