package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"headroom/pglocal"
)

// outageResult is what became of six hours without a store.
type outageResult struct {
	What           string
	Sent           int64   // points while the store was away
	FeedSeconds    float64 // it took to feed them
	QueueBytes     uint64
	Told           string  // what /status said meanwhile
	PageStatus     int     // of GET /api/v1/healthz and /metrics meanwhile
	CatchUpSeconds float64 // from the store's return until the queue was empty, live load going on
	CatchUpRate    float64 // points/s
	LiveRate       float64 // points/s
	TimesLive      float64
	Lost, Double   int64
	MemoryMax      int64
}

const (
	outageMinutes = 360
	outageFrames  = 100 // hosts a request
)

// outage takes the store away, feeds six hours of 1,000 hosts, and brings it
// back.
func outage(ctx context.Context, b *bench) (any, error) {
	storeDir := filepath.Join(b.dir, "store")
	settings := map[string]string{"max_wal_size": "2GB", "shared_buffers": "256MB", "wal_level": "minimal", "max_wal_senders": "0"}
	pg, err := pglocal.Keep(ctx, storeDir, pglocal.Options{Settings: settings})
	if err != nil {
		return nil, err
	}
	defer func() { _ = pg.Stop() }()
	u, err := b.running(ctx, "--no-collect", "--queue", "8GiB", "--store", pg.DSN())
	if err != nil {
		return nil, err
	}
	defer func() { _ = u.stop() }()
	f, err := newFleet(fleetHosts, fleetPer)
	if err != nil {
		return nil, err
	}
	end := time.Now().Truncate(time.Minute)
	start := end.Add(-outageMinutes * time.Minute)
	r := &outageResult{What: fmt.Sprintf("%d hosts × %d series, one sample a minute for %d minutes, sent while the store was stopped; then the store came back and new samples went on at the live rate", fleetHosts, fleetPer, outageMinutes)}
	if err := f.feed(ctx, u, start.Add(-time.Minute), 1, nil); err != nil { // all series known
		return nil, err
	}
	if err := u.settled(ctx, time.Minute); err != nil {
		return nil, err
	}
	if err := pg.Stop(); err != nil {
		return nil, err
	}
	b.note("the store is stopped; feeding")
	began := time.Now()
	err = f.feed(ctx, u, start, outageMinutes, func(minute int) {
		if minute%30 == 0 {
			s, _ := u.status()
			b.note("minute %d: %d messages, %d MB: %.80s", minute, s.Queue.Messages, s.Queue.Bytes>>20, s.Worker.Trouble)
		}
		r.MemoryMax = max(r.MemoryMax, used(u.cmd.Process.Pid).RSS)
	})
	if err != nil {
		return nil, err
	}
	r.Sent, r.FeedSeconds = int64(f.hosts()*f.per*outageMinutes), time.Since(began).Seconds()
	s := must(u.status())
	r.QueueBytes, r.Told = s.Queue.Bytes, s.Worker.Trouble
	if res, err := http.Get(u.url + "/api/v1/healthz"); err == nil {
		r.PageStatus = res.StatusCode
		_ = res.Body.Close()
	}
	if r.Told == "" {
		return r, errors.New("the store is away, and /status does not say so")
	}
	return r, r.back(ctx, b, f, u, storeDir, settings, start, end)
}

// back brings the store back while live samples go on, and counts.
func (r *outageResult) back(ctx context.Context, b *bench, f *fleet, u *up, dir string, settings map[string]string, start, end time.Time) error {
	pg, err := pglocal.Keep(ctx, dir, pglocal.Options{Settings: settings})
	if err != nil {
		return err
	}
	defer func() { _ = pg.Stop() }()
	began, before := time.Now(), must(u.status()).Worker.Stored
	live, stop := context.WithCancel(ctx)
	var liveEnd sync.WaitGroup
	liveEnd.Go(func() { _, _ = f.drive(live, u, time.Minute, time.Hour, nil) })
	for ctx.Err() == nil {
		s, err := u.status()
		if err == nil && s.Queue.Messages < 20 {
			break
		}
		b.note("%.0f s: %d messages left, stored %d M, lag %.0f s %s", time.Since(began).Seconds(), s.Queue.Messages, s.Worker.Stored/1e6, s.Worker.Lag, s.Worker.Trouble)
		r.MemoryMax = max(r.MemoryMax, used(u.cmd.Process.Pid).RSS)
		time.Sleep(3 * time.Second)
	}
	r.CatchUpSeconds = time.Since(began).Seconds()
	stop()
	liveEnd.Wait()
	if err := u.settled(ctx, time.Minute); err != nil {
		return err
	}
	r.CatchUpRate = float64(must(u.status()).Worker.Stored-before) / r.CatchUpSeconds
	r.LiveRate = float64(f.hosts()*f.per) / 60
	r.TimesLive = r.CatchUpRate / r.LiveRate
	b.note("caught up in %.0f s, %.0f × live; counting", r.CatchUpSeconds, r.TimesLive)
	return r.count(f, u, start, end)
}

// feed sends so many minutes of all hosts, many hosts a request.
func (f *fleet) feed(ctx context.Context, u *up, start time.Time, minutes int, look func(int)) error {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 4}, Timeout: 2 * time.Minute}
	for m := range minutes {
		at := start.Add(time.Duration(m) * time.Minute).UnixMilli()
		var all sync.WaitGroup
		errs := make([]error, f.hosts()/outageFrames)
		for part := range errs {
			var body bytes.Buffer
			for h := part * outageFrames; h < (part+1)*outageFrames; h++ {
				body.Write(frame(f.batch(h, at)))
			}
			all.Go(func() {
				code, text, err := post(ctx, client, u.url+"/api/v1/ingest/batch", u.token, "application/vnd.headroom.batch", body.Bytes())
				if err == nil && code/100 != 2 {
					err = fmt.Errorf("%d %s", code, text)
				}
				errs[part] = err
			})
		}
		all.Wait()
		if err := errors.Join(errs...); err != nil {
			return err
		}
		if look != nil {
			look(m)
		}
	}
	return nil
}

// count asks for the number of points of each host and compares.
func (r *outageResult) count(f *fleet, u *up, start, end time.Time) error {
	want := int64(f.per * outageMinutes)
	for h := range f.hosts() {
		q := url.Values{"match": {fmt.Sprintf(`{__name__=~"sim_.*",host="web-%04d.example"}`, h)}, "func": {"count"}, "agg": {"sum"}, "by": {"host"},
			"from": {start.UTC().Format(time.RFC3339)}, "to": {end.UTC().Format(time.RFC3339)}, "step": {"60"}}
		got, err := u.sum(q)
		if err != nil {
			return err
		}
		r.Lost += max(0, want-got)
		r.Double += max(0, got-want)
	}
	return nil
}

// sum adds up all values of a query.
func (u *up) sum(q url.Values) (int64, error) {
	b, err := u.get("/api/v1/query?" + q.Encode())
	if err != nil {
		return 0, err
	}
	var frame struct{ Lines []struct{ Values []*float64 } }
	if err := json.NewDecoder(strings.NewReader(string(b))).Decode(&frame); err != nil {
		return 0, err
	}
	var n float64
	for _, l := range frame.Lines {
		for _, v := range l.Values {
			if v != nil {
				n += *v
			}
		}
	}
	return int64(n), nil
}
