package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"headroom/stats"
)

const (
	fleetHosts = 1000
	fleetPer   = 200
)

// hostsResult is what 1,000 hosts cost.
type hostsResult struct {
	What           string
	Seconds        float64
	Sent, Stored   int64 // points
	Errors         int64
	CPU            float64 // share of one core, of Headroom and its PostgreSQL
	MemoryMax      int64   // bytes, Pss of all processes
	MemoryOurs     int64   // of which Headroom alone, at the end
	LagHalf, Lag95 float64 // seconds
	LagMax         float64
}

// hosts has 1,000 simulated agents send 200 series each once a minute, each at
// its own second, over its own connection.
func hosts(ctx context.Context, b *bench) (any, error) {
	u, err := b.running(ctx, "--no-collect")
	if err != nil {
		return nil, err
	}
	defer func() { _ = u.stop() }()
	f, err := newFleet(fleetHosts, fleetPer)
	if err != nil {
		return nil, err
	}
	r := &hostsResult{What: "1,000 simulated agents × 200 series at one minute, each over its own connection"}
	if _, err := f.drive(ctx, u, time.Minute, 20*time.Second, nil); err != nil { // the series are new once
		return nil, err
	}
	if err := u.settled(ctx, time.Minute); err != nil {
		return nil, err
	}
	before, s0, began := used(u.cmd.Process.Pid), must(u.status()), time.Now()
	var lags []float64
	n, err := f.drive(ctx, u, time.Minute, max(b.seconds, 2*time.Minute), func() {
		if s, err := u.status(); err == nil {
			lags = append(lags, s.Worker.Lag)
		}
		r.MemoryMax = max(r.MemoryMax, used(u.cmd.Process.Pid).RSS)
	})
	if err != nil {
		return nil, err
	}
	if err := u.settled(ctx, time.Minute); err != nil {
		return nil, err
	}
	r.MemoryOurs = pss(u.cmd.Process.Pid)
	r.Seconds = time.Since(began).Seconds()
	r.CPU = (used(u.cmd.Process.Pid).CPU - before.CPU) / r.Seconds
	r.Sent, r.Errors, r.Stored = n.points, n.errors, must(u.status()).Worker.Stored-s0.Worker.Stored
	r.LagHalf, r.Lag95, r.LagMax = stats.Quantile(lags, 0.5), stats.Quantile(lags, 0.95), stats.Quantile(lags, 1)
	if r.Sent != r.Stored {
		return r, fmt.Errorf("sent %d points, stored %d", r.Sent, r.Stored)
	}
	return r, nil
}

func must(s status, err error) status {
	if err != nil {
		panic(err)
	}
	return s
}

type driven struct{ points, errors int64 }

// drive sends all hosts' samples once each interval, spread evenly over it,
// for a time; look is called once a second.
func (f *fleet) drive(ctx context.Context, u *up, every, length time.Duration, look func()) (driven, error) {
	var n driven
	var points, failed atomic.Int64
	client := &http.Client{Transport: &http.Transport{MaxIdleConns: 2 * f.hosts(), MaxIdleConnsPerHost: 2 * f.hosts()}, Timeout: 30 * time.Second}
	defer client.CloseIdleConnections()
	var all sync.WaitGroup
	room := make(chan struct{}, 256)
	gap := every / time.Duration(f.hosts())
	began, sent, looked := time.Now(), 0, time.Now()
	for time.Since(began) < length && ctx.Err() == nil {
		due := int(time.Since(began) / gap)
		for ; sent < due; sent++ {
			batch := f.batch(sent%f.hosts(), time.Now().UnixMilli())
			room <- struct{}{}
			all.Go(func() {
				defer func() { <-room }()
				code, _, err := post(ctx, client, u.url+"/api/v1/ingest/batch", u.token, "application/vnd.headroom.batch", frame(batch))
				if err != nil || code/100 != 2 {
					failed.Add(1)
					return
				}
				points.Add(int64(batch.Len()))
			})
		}
		if look != nil && time.Since(looked) > time.Second {
			looked = time.Now()
			look()
		}
		time.Sleep(time.Millisecond)
	}
	all.Wait()
	n.points, n.errors = points.Load(), failed.Load()
	if n.points == 0 {
		return n, errors.New("nothing was taken: " + u.said())
	}
	return n, nil
}
