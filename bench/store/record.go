package main

import (
	"bufio"
	"compress/gzip"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"headroom/agent"
	"headroom/host"
	"headroom/metric"
	"headroom/topic/all"
)

// record runs the product's own host collectors on this machine for a time and
// writes what they read, one point a line: milliseconds, series, value.
func record(ctx context.Context, path string, long time.Duration) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	z := gzip.NewWriter(f)
	l := host.Open(host.Options{})
	defer l.Close()
	var cs []*metric.Collector
	for _, t := range all.Topics() {
		for _, c := range t.Collectors {
			if c.Of == metric.Host {
				cs = append(cs, c)
			}
		}
	}
	r := agent.New(agent.Options{Reader: l, Host: "bench", Collectors: cs, Find: func(context.Context) []agent.Target { return nil },
		Sink: func(_ context.Context, b *metric.Batch) error {
			for _, row := range b.Rows {
				for _, p := range row.Points {
					if _, err := fmt.Fprintf(z, "%d %s %s\n", p.At, row.Series.Key(), strconv.FormatFloat(p.Value, 'g', -1, 64)); err != nil {
						return err
					}
				}
			}
			return nil
		}})
	ctx, stop := context.WithTimeout(ctx, long)
	defer stop()
	if err := r.Run(ctx); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	return f.Close()
}

// recorded reads such a file: points by series, in the order of time.
func recorded(path string) (map[string][]metric.Point, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	out := map[string][]metric.Point{}
	lines := bufio.NewScanner(z)
	for lines.Scan() {
		at, rest, _ := strings.Cut(lines.Text(), " ")
		cut := strings.LastIndexByte(rest, ' ')
		ms, err := strconv.ParseInt(at, 10, 64)
		if err != nil || cut < 0 {
			return nil, fmt.Errorf("%s: line %q", path, lines.Text())
		}
		v, err := strconv.ParseFloat(rest[cut+1:], 64)
		if err != nil {
			return nil, err
		}
		out[rest[:cut]] = append(out[rest[:cut]], metric.Point{At: ms, Value: v})
	}
	return out, lines.Err()
}
