package main

import (
	"fmt"
	"math"
	"strings"
	"time"

	"headroom/metric"
	"headroom/store"
)

// writing is one way to fill the store.
type writing struct {
	What       string  `json:"what"`
	Points     int     `json:"points"`
	PerWrite   int     `json:"points_per_write"`
	Series     int     `json:"series"`
	Rate       float64 `json:"points_per_second"` // of wall time, on a machine that others may use, with packing
	WriteNS    spent   `json:"write_cpu_ns_per_point"`
	PackNS     spent   `json:"pack_cpu_ns_per_point"`
	PerCPU     float64 `json:"points_per_cpu_second"` // ours and the server's, writing and packing
	HeapMost   uint64  `json:"heap_bytes_most"`
	DiskPerPt  float64 `json:"bytes_per_point_packed"`
	NewSeries  spent   `json:"new_series_cpu_us_each"` // once; not in the figures above
	WriteP50MS float64 `json:"write_p50_ms"`
	WriteP99MS float64 `json:"write_p99_ms"`
}

// writes fills the store as fast as it takes points, with fsync on.
func (b *bench) writes() ([]writing, error) {
	var out []writing
	for _, x := range []struct {
		what               string
		hosts, each, batch int
		points             int
	}{
		{"scrapes of 200 series, 100 in a write", 1000, 200, 100, 12_000_000},
		{"scrapes of 200 series, 10 in a write", 1000, 200, 10, 3_000_000},
		{"scrapes of 200 series, one by one", 100, 200, 1, 200_000},
	} {
		w, err := b.write(x.what, x.hosts, x.each, x.batch, x.points)
		if err != nil {
			return out, err
		}
		out = append(out, w)
	}
	return out, nil
}

func (b *bench) write(what string, hosts, each, batches, points int) (writing, error) {
	c := newClock(time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC))
	s, pg, err := b.open(c)
	if err != nil {
		return writing{}, err
	}
	defer s.Close()
	defer pg.Close(b.ctx)
	all, err := fleetSeries(hosts, each)
	if err != nil {
		return writing{}, err
	}
	w := writing{What: what, Points: points, PerWrite: batches * each, Series: hosts * each}
	var writeCPU, packCPU spent
	var wall time.Duration
	var waits []time.Duration
	pack := func() error {
		x, took, err := b.measure(func() error { return s.Maintain(b.ctx) })
		packCPU.Ours, packCPU.Server, wall = packCPU.Ours+x.Ours, packCPU.Server+x.Server, wall+took
		return err
	}
	if w.NewSeries, err = b.introduce(s, c, all); err != nil {
		return w, err
	}
	for done, h, round := 0, 0, 1; done < points; {
		var group [][]*metric.Batch
		for range max(1, 100/batches) { // made beforehand: whoever sends them pays for that
			var bs []*metric.Batch
			for range batches {
				bs = append(bs, scrape(all[h], h*each, round, c.now().UnixMilli()))
				done += each
				if h++; h == hosts {
					h, round = 0, round+1
					c.add(10 * time.Second)
				}
			}
			group = append(group, bs)
		}
		x, took, err := b.measure(func() error {
			for _, bs := range group {
				start := time.Now()
				if err := s.Write(b.ctx, bs); err != nil {
					return err
				}
				waits = append(waits, time.Since(start))
			}
			return nil
		})
		if err != nil {
			return w, err
		}
		writeCPU.Ours, writeCPU.Server, wall = writeCPU.Ours+x.Ours, writeCPU.Server+x.Server, wall+took
		w.HeapMost = max(w.HeapMost, heap())
		if round%6 == 0 { // often enough for it to see that memory is short
			if err := pack(); err != nil {
				return w, err
			}
		}
	}
	c.add(2 * time.Hour)
	if err := pack(); err != nil {
		return w, err
	}
	w.Rate, w.WriteNS, w.PackNS = float64(points)/wall.Seconds(), ns(writeCPU.per(points)), ns(packCPU.per(points))
	w.PerCPU = 1e9 / (w.WriteNS.Ours + w.WriteNS.Server + w.PackNS.Ours + w.PackNS.Server)
	w.WriteP50MS, w.WriteP99MS = quantiles(waits)
	err = pg.QueryRow(b.ctx, `select sum(pg_total_relation_size(relid))::float8 / $1 from pg_partition_tree('headroom.store_raw')`, points).Scan(&w.DiskPerPt)
	fmt.Printf("%+v\n", w)
	return w, err
}

// introduce writes the first point of each series.
func (b *bench) introduce(s *store.Store, c *clock, all [][]*metric.Series) (spent, error) {
	n := 0
	x, _, err := b.measure(func() error {
		for h := 0; h < len(all); h += 100 {
			var bs []*metric.Batch
			for i := h; i < min(h+100, len(all)); i++ {
				bs = append(bs, scrape(all[i], i*len(all[i]), 0, c.now().UnixMilli()))
				n += len(all[i])
			}
			if err := s.Write(b.ctx, bs); err != nil {
				return err
			}
		}
		return nil
	})
	c.add(10 * time.Second)
	return spent{x.Ours * 1e6 / float64(n), x.Server * 1e6 / float64(n)}, err
}

// sizes is what packed points of real host metrics take on disk.
type sizes struct {
	Sample  string  `json:"sample"`
	Series  int     `json:"series"`
	Points  int     `json:"points"`
	PerHour int     `json:"points_in_a_row"` // series and hour
	Columns float64 `json:"packed_columns"`
	Rows    float64 `json:"with_row_heads"` // table without index
	All     float64 `json:"with_index"`
	Note    string  `json:"note"`
}

func (b *bench) sizes(sample string) (*sizes, error) {
	rec, err := recorded(sample)
	if err != nil {
		return nil, err
	}
	var first, last int64
	for _, ps := range rec {
		if first == 0 || ps[0].At < first {
			first = ps[0].At
		}
		last = max(last, ps[len(ps)-1].At)
	}
	// The recorded time is laid end to end, from a whole hour on, until rows
	// hold whole hours and pages are full; series that came and went stay short.
	c := newClock(time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC))
	s, pg, err := b.open(c)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	defer pg.Close(b.ctx)
	out := &sizes{Sample: sample, Series: len(rec), Note: "recorded " + time.UnixMilli(first).UTC().Format(time.DateTime) + " to " + time.UnixMilli(last).UTC().Format(time.DateTime)}
	first -= first % 10_000
	start, span := c.now().UnixMilli(), (last-first)/10_000*10_000+10_000
	const copies = 8 // hosts
	for t := int64(0); t < 24*3_600_000; t += span {
		for host := range copies {
			bt := &metric.Batch{ID: metric.NewID()}
			for key, ps := range rec {
				ser, err := metric.ParseSeries(key)
				if err != nil {
					return nil, err
				}
				ls := append([]metric.Label{{Name: "copy", Value: fmt.Sprint(host)}}, ser.Labels...)
				if ser, err = metric.NewSeries(ser.Name, ls); err != nil {
					return nil, err
				}
				moved := make([]metric.Point, len(ps))
				for i, p := range ps {
					moved[i] = metric.Point{At: start + t + p.At - first, Value: p.Value}
					if strings.HasSuffix(ser.Name, "_total") { // goes on where it was
						v := p.Value + float64(t/span)*(ps[len(ps)-1].Value-ps[0].Value)
						if moved[i].Value = v; math.Abs(v) < 1e9 { // the sum of decimals is a decimal again
							moved[i].Value = math.Round(v*1e6) / 1e6
						}
					}
				}
				bt.Rows = append(bt.Rows, metric.Row{Series: ser, Points: moved})
			}
			if err := s.Write(b.ctx, []*metric.Batch{bt}); err != nil {
				return nil, err
			}
		}
		c.ms.Store(start + t + span)
		if err := s.Maintain(b.ctx); err != nil {
			return nil, err
		}
	}
	return out, pg.QueryRow(b.ctx, `select count(*), sum(n), (sum(n) / count(*))::int, sum(length(times) + length(vals))::float8 / sum(n),
		(select sum(pg_relation_size(relid)) from pg_partition_tree('headroom.store_raw') where isleaf) / sum(n)::float8,
		(select sum(pg_total_relation_size(relid)) from pg_partition_tree('headroom.store_raw') where isleaf) / sum(n)::float8
		from headroom.store_raw`).Scan(nil, &out.Points, &out.PerHour, &out.Columns, &out.Rows, &out.All)
}
