package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"

	"headroom/host"
	"headroom/metric"
	"headroom/pglocal"
	"headroom/stats"
	"headroom/topic/postgres"
)

// trial is one load with and without the collectors, in windows of one
// running pgbench. Ratio is TPS with by without.
type trial struct {
	Load     string
	Speed    int // how many times as often as usual the collectors ran
	pairs    int
	Window   int // seconds, of which the first is left out
	Rounds   int // of collectors, in all windows with them
	Without  []float64
	With     []float64
	Ratio    stats.Interval
	SD       float64
	Warnings []stats.Warning `json:",omitempty"`
}

func (r *result) trials(ctx context.Context, s *pglocal.Server, list string) error {
	init := exec.CommandContext(ctx, "pgbench", "-i", "-q", "-s", "20", "-h", s.Conn.SocketDir, "-p", strconv.Itoa(s.Conn.Port), "-U", s.Conn.User, "postgres")
	if out, err := init.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	for word := range strings.SplitSeq(list, ",") {
		var t trial
		if _, err := fmt.Sscanf(strings.ReplaceAll(word, ":", " "), "%s %d %d %d", &t.Load, &t.Speed, &t.pairs, &t.Window); err != nil {
			return fmt.Errorf("read trial %q: %w", word, err)
		}
		if err := t.run(ctx, s); err != nil {
			return err
		}
		fmt.Printf("%s, collectors %d times as often: TPS with / without = %.4f (%.4f to %.4f), %d pairs, noise of a pair %.1f %%, %d rounds\n",
			t.Load, t.Speed, t.Ratio.Center, t.Ratio.Lo, t.Ratio.Hi, len(t.With), 100*t.SD, t.Rounds)
		r.Trials = append(r.Trials, t)
	}
	return nil
}

// loads are pgbench's flags for a load: reads of one row, or the writes of its
// TPC-B without those that wait for each other.
var loads = map[string]string{"select": "-S", "tpcb": "-N"}

// run runs one pgbench over all windows and switches the collectors on and off.
func (t *trial) run(ctx context.Context, s *pglocal.Server) error {
	total := 2*t.pairs*t.Window + 6
	cmd := exec.CommandContext(ctx, "pgbench", loads[t.Load], "-n", "-M", "prepared", "-c", "4", "-T", strconv.Itoa(total), "-P", "1",
		"--progress-timestamp", "-h", s.Conn.SocketDir, "-p", strconv.Itoa(s.Conn.Port), "-U", s.Conn.User, "postgres")
	pipe, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	var seconds []second
	read := make(chan struct{})
	go func() {
		defer close(read)
		seconds = progress(bufio.NewScanner(pipe))
	}()
	time.Sleep(3 * time.Second)
	spans, err := t.windows(ctx, s)
	<-read
	if err = errors.Join(err, cmd.Wait()); err != nil {
		return err
	}
	return t.judge(spans, seconds)
}

// span is one window.
type span struct {
	from, to time.Time
	with     bool
}

func (t *trial) windows(ctx context.Context, s *pglocal.Server) (spans []span, err error) {
	l := host.Open(host.Options{DSN: s.DSN() + " user=watcher", WithPG: true, Retry: true})
	defer l.Close()
	memories := map[string]*metric.Memory{}
	for _, c := range postgres.Topic.Collectors {
		memories[c.Name] = &metric.Memory{}
	}
	w := &watch{l: l, memories: memories, speed: time.Duration(t.Speed), elapsed: map[string]time.Duration{}}
	for _, order := range stats.Order(rand.New(rand.NewPCG(1, uint64(t.Speed))), 2, t.pairs) {
		for _, arm := range order {
			sp := span{from: time.Now(), with: arm == 1}
			inner, stop := context.WithTimeout(ctx, time.Duration(t.Window)*time.Second)
			if sp.with {
				err = errors.Join(err, w.run(inner))
			}
			<-inner.Done()
			stop()
			sp.to = time.Now()
			spans = append(spans, sp)
			if ctx.Err() != nil || err != nil {
				return spans, errors.Join(err, ctx.Err())
			}
		}
	}
	t.Rounds = w.rounds
	return spans, nil
}

// watch runs collectors as `headroom up` does: each at its interval, one after
// the other, over one connection. Time stands still between its windows.
type watch struct {
	l        *host.Local
	memories map[string]*metric.Memory
	speed    time.Duration
	elapsed  map[string]time.Duration // until the collector's next round
	rounds   int
}

func (w *watch) run(ctx context.Context) error {
	tick := 10 * time.Second / w.speed
	for ctx.Err() == nil {
		start := time.Now()
		for _, c := range postgres.Topic.Collectors {
			if w.elapsed[c.Name] -= tick; w.elapsed[c.Name] >= 0 {
				continue
			}
			w.elapsed[c.Name] += interval(c) / w.speed
			out := metric.NewOut(c, time.Now())
			out.Memory = w.memories[c.Name]
			if err := c.Collect(ctx, w.l, out); err != nil && ctx.Err() == nil {
				return err
			}
			w.rounds++
		}
		select {
		case <-ctx.Done():
		case <-time.After(tick - time.Since(start)):
		}
	}
	return nil
}

// second is one line of pgbench's progress: TPS of the second that ended then.
type second struct {
	at  float64
	tps float64
}

var progressLine = regexp.MustCompile(`^progress: ([0-9.]+) s, ([0-9.]+) tps`)

func progress(in *bufio.Scanner) (out []second) {
	for in.Scan() {
		if m := progressLine.FindStringSubmatch(in.Text()); m != nil {
			at, _ := strconv.ParseFloat(m[1], 64)
			tps, _ := strconv.ParseFloat(m[2], 64)
			out = append(out, second{at, tps})
		}
	}
	return out
}

// judge gives each window the mean of the seconds that lie within it, and
// compares each pair.
func (t *trial) judge(spans []span, seconds []second) error {
	mean := func(s span) float64 {
		from, to := float64(s.from.UnixMilli())/1000, float64(s.to.UnixMilli())/1000
		sum, n := 0.0, 0.0
		for _, x := range seconds {
			if x.at-1 >= from && x.at <= to {
				sum, n = sum+x.tps, n+1
			}
		}
		return sum / n
	}
	var pairs []stats.Pair
	for i := 0; i+1 < len(spans); i += 2 {
		a, b := spans[i], spans[i+1]
		if a.with {
			a, b = b, a
		}
		p := stats.Pair{Base: mean(a), Changed: mean(b)}
		pairs = append(pairs, p)
		t.Without, t.With = append(t.Without, p.Base), append(t.With, p.Changed)
	}
	c, err := stats.Compare(pairs, 0.95)
	t.Ratio, t.SD, t.Warnings = c.Ratio, c.SD, c.Warnings
	return err
}
