package main

import (
	"fmt"
	"time"

	"headroom/metric"
)

// fleet is the load of 1,000 hosts with 200 series each, once a minute, as the
// store feels it; hours pass as fast as they are worked off.
type fleet struct {
	Hosts    int     `json:"hosts"`
	Series   int     `json:"series"`
	Minutes  int     `json:"minutes"`
	Points   int     `json:"points"`
	CPU      spent   `json:"cpu_share_of_a_core"`  // with writing once a second, and packing
	Heap     uint64  `json:"heap_bytes_most"`      // live and garbage
	Took     float64 `json:"took_seconds"`         // the hours' work, of wall time
	Catch    float64 `json:"times_the_live_rate"`  // how much faster than it comes
	PackSecs float64 `json:"pack_an_hour_seconds"` // the longest pass of maintenance
	WriteP99 float64 `json:"write_p99_ms"`
	Disk     int64   `json:"bytes_per_hour_packed"`
}

func (b *bench) fleet() (*fleet, error) {
	const hosts, each, minutes = 1000, 200, 125
	c := newClock(time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC))
	s, pg, err := b.open(c)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	defer pg.Close(b.ctx)
	all, err := fleetSeries(hosts, each)
	if err != nil {
		return nil, err
	}
	out := &fleet{Hosts: hosts, Series: hosts * each, Minutes: minutes, Points: hosts * each * minutes}
	var waits []time.Duration
	var cpu spent
	var wall time.Duration
	for round := range minutes {
		for sec := range 60 {
			var bs []*metric.Batch
			for h := sec * hosts / 60; h < (sec+1)*hosts/60; h++ {
				bs = append(bs, scrape(all[h], h*each, round, c.now().UnixMilli()))
			}
			x, took, err := b.measure(func() error {
				if err := s.Write(b.ctx, bs); err != nil {
					return err
				}
				if sec%15 == 0 {
					start := time.Now()
					defer func() { out.PackSecs = max(out.PackSecs, time.Since(start).Seconds()) }()
					return s.Maintain(b.ctx)
				}
				return nil
			})
			if err != nil {
				return nil, err
			}
			if sec%15 != 0 {
				waits = append(waits, took)
			}
			cpu.Ours, cpu.Server, wall = cpu.Ours+x.Ours, cpu.Server+x.Server, wall+took
			c.add(time.Second)
		}
		out.Heap = max(out.Heap, heap())
	}
	long := float64(minutes * 60)
	out.CPU = spent{cpu.Ours / long, cpu.Server / long}
	out.Took, out.Catch = wall.Seconds(), long/wall.Seconds()
	_, out.WriteP99 = quantiles(waits)
	err = pg.QueryRow(b.ctx, `select sum(pg_total_relation_size(relid))::bigint / 2 from pg_partition_tree('headroom.store_raw')`).Scan(&out.Disk)
	fmt.Printf("%+v\n", *out)
	return out, err
}
