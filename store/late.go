package store

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"headroom/metric"
)

// late is points of a series in an hour of which some are packed already.
type late struct {
	series, hour int64
	points       []metric.Point
}

// mend joins late points with what is packed of their hour.
func (p *packing) mend(ctx context.Context) error {
	if len(p.late) == 0 {
		return nil
	}
	at := map[[2]int64]int{}
	var ids []int64
	lo, hi := p.late[0].hour, p.late[0].hour
	for i, l := range p.late {
		at[[2]int64{l.series, l.hour}] = i
		ids = append(ids, l.series)
		lo, hi = min(lo, l.hour), max(hi, l.hour)
	}
	have := make([][]metric.Point, len(p.late))
	var gone pgx.Batch
	rows, err := p.tx.Query(ctx, rawSQL, slices.Compact(ids), time.UnixMilli(lo), time.UnixMilli(hi+hourMS))
	if err != nil {
		return err
	}
	err = eachRaw(rows, &p.c, func(id, first int64, ps []metric.Point) {
		if i, ok := at[[2]int64{id, first - first%hourMS}]; ok {
			have[i] = append(have[i], ps...)
			gone.Queue("delete from headroom.store_raw where series = $1 and at = $2", id, time.UnixMilli(first))
		}
	})
	if err != nil {
		return err
	}
	if gone.Len() > 0 {
		if err := p.tx.SendBatch(ctx, &gone).Close(); err != nil {
			return fmt.Errorf("join late points: %w", err)
		}
	}
	for i, l := range p.late {
		p.row(l.series, settle(append(have[i], l.points...)))
	}
	return nil
}

// note has the days that are rolled up already rolled up anew.
func (p *packing) note(ctx context.Context) error {
	if len(p.dirty) == 0 {
		return nil
	}
	slices.SortFunc(p.dirty, func(a, b [2]int64) int { return slices.Compare(a[:], b[:]) })
	p.dirty = slices.Compact(p.dirty)
	ids, days := make([]int64, len(p.dirty)), make([]time.Time, len(p.dirty))
	for i, d := range p.dirty {
		ids[i], days[i] = d[0], time.UnixMilli(d[1]).UTC()
	}
	_, err := p.tx.Exec(ctx, "insert into headroom.store_dirty select * from unnest($1::bigint[], $2::date[]) on conflict do nothing", ids, days)
	return err
}
