package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"headroom/metric"
	"headroom/pglocal"
	"headroom/store"
)

// bench has one server; each part has a database of its own.
type bench struct {
	ctx context.Context
	srv *pglocal.Server
	n   int
}

// clock is moved by the part, so that hours and days pass at once.
type clock struct{ ms atomic.Int64 }

func (c *clock) now() time.Time      { return time.UnixMilli(c.ms.Load()).UTC() }
func (c *clock) add(d time.Duration) { c.ms.Add(d.Milliseconds()) }

// passed is the clock itself: it never jumps.
func (c *clock) passed() time.Duration { return time.Duration(c.ms.Load()) * time.Millisecond }

func newClock(at time.Time) *clock {
	c := &clock{}
	c.ms.Store(at.UnixMilli())
	return c
}

func (b *bench) open(c *clock) (*store.Store, *pgx.Conn, error) {
	b.n++
	admin, err := pgx.Connect(b.ctx, b.srv.DSN())
	if err != nil {
		return nil, nil, err
	}
	defer admin.Close(b.ctx)
	name := fmt.Sprintf("bench%d", b.n)
	if _, err := admin.Exec(b.ctx, "create database "+name); err != nil {
		return nil, nil, err
	}
	dsn := b.srv.DSN() + " dbname=" + name
	s, err := store.Open(b.ctx, store.Options{DSN: dsn, Now: c.now, Lived: c.passed, Log: func(l string) { fmt.Fprintln(os.Stderr, l) }})
	if err != nil {
		return nil, nil, err
	}
	pg, err := pgx.Connect(b.ctx, dsn)
	return s, pg, err
}

// own is the processor time that we used so far, in seconds.
func own() float64 {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}

// tree sums up a process, its children that live, and those that it waited for.
func tree(pid int) float64 {
	sum := 0.0
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		raw, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		text := string(raw)
		f := strings.Fields(text[strings.LastIndexByte(text, ')')+2:])
		own, _, _ := strings.Cut(text, " ")
		ticks := func(i int) float64 { n, _ := strconv.ParseFloat(f[i], 64); return n / 100 }
		switch {
		case own == strconv.Itoa(pid):
			sum += ticks(11) + ticks(12) + ticks(13) + ticks(14)
		case f[1] == strconv.Itoa(pid):
			sum += ticks(11) + ticks(12)
		}
	}
	return sum
}

// spent is processor seconds between two calls of cpu.
type spent struct {
	Ours   float64 `json:"ours"`
	Server float64 `json:"server"`
}

// measure runs f. Reading the server's times costs time of ours, which is left
// out.
func (b *bench) measure(f func() error) (spent, time.Duration, error) {
	server := tree(b.srv.PID())
	before, start := own(), time.Now()
	err := f()
	took, ours := time.Since(start), own()-before
	return spent{ours, tree(b.srv.PID()) - server}, took, err
}

func (x spent) per(points int) spent {
	return spent{x.Ours / float64(points), x.Server / float64(points)}
}

func ns(x spent) spent { return spent{x.Ours * 1e9, x.Server * 1e9} }

func heap() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}

// fleetSeries makes the series of hosts: most are counters, as in life.
func fleetSeries(hosts, each int) ([][]*metric.Series, error) {
	out := make([][]*metric.Series, hosts)
	for h := range out {
		for i := range each {
			name := fmt.Sprintf("host_thing_%d_total", i)
			if i%3 == 0 {
				name = fmt.Sprintf("host_level_%d", i)
			}
			s, err := metric.NewSeries(name, []metric.Label{{Name: "host", Value: fmt.Sprintf("host-%04d", h)}, {Name: "device", Value: "sda"}})
			if err != nil {
				return nil, err
			}
			out[h] = append(out[h], s)
		}
	}
	return out, nil
}

// value is a made-up but lifelike figure: counters rise by what wavers, levels
// wander, a third stands still.
func value(series, round int) float64 {
	x := uint64(series)*0x9E3779B97F4A7C15 + uint64(round)*0xBF58476D1CE4E5B9
	x ^= x >> 31
	x *= 0x94D049BB133111EB
	noise := float64(x >> 44) // 20 bits
	switch {
	case series%9 == 1:
		return 42
	case series%3 == 0:
		return 1e6 + float64(int(noise)%4096)
	}
	return float64(round)*1e5 + float64(int(noise)%50_000)
}

func scrape(s []*metric.Series, first, round int, at int64) *metric.Batch {
	b := &metric.Batch{ID: metric.NewID(), Origin: "bench"}
	ps := make([]metric.Point, len(s))
	for i := range s {
		ps[i] = metric.Point{At: at, Value: value(first+i, round)}
		b.Rows = append(b.Rows, metric.Row{Series: s[i], Points: ps[i : i+1 : i+1]})
	}
	return b
}
