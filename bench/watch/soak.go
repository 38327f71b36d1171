package main

import (
	"context"
	"fmt"
	"os"
	"time"
)

// soakResult is how a long run at twelve times the rate of 1,000 hosts went.
type soakResult struct {
	What                        string
	Seconds                     float64
	Points, Errors              int64
	Samples                     []soakSample
	MemoryPerHour, FilesPerHour float64 // slopes over the second half: bytes, descriptors
	GoroutinesPerHour           float64
}

type soakSample struct {
	At         float64 // seconds since the start
	Memory     int64   // bytes, Pss of Headroom alone
	All        int64   // with PostgreSQL
	Files      int     // of Headroom alone
	Goroutines float64
	Lag        float64
}

// soak drives 1,000 hosts every 5 s, which is twelve times one minute's rate.
func soak(ctx context.Context, b *bench) (any, error) {
	u, err := b.running(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = u.stop() }()
	f, err := newFleet(fleetHosts, fleetPer)
	if err != nil {
		return nil, err
	}
	r := &soakResult{What: "1,000 hosts × 200 series every 5 s (12 × one minute's rate), this machine watched as well"}
	began, last := time.Now(), time.Time{}
	n, err := f.drive(ctx, u, 5*time.Second, b.seconds, func() {
		if time.Since(last) < 10*time.Second {
			return
		}
		last = time.Now()
		r.Samples = append(r.Samples, u.sample(time.Since(began)))
		s := r.Samples[len(r.Samples)-1]
		b.note("%.0f s: %d MB alone, %d MB in all, %d files, %.0f goroutines, lag %.2f s", s.At, s.Memory>>20, s.All>>20, s.Files, s.Goroutines, s.Lag)
	})
	if err != nil {
		return nil, err
	}
	r.Seconds, r.Points, r.Errors = time.Since(began).Seconds(), n.points, n.errors
	half := r.Samples[len(r.Samples)/2:]
	r.MemoryPerHour = slope(half, func(s soakSample) float64 { return float64(s.Memory) })
	r.FilesPerHour = slope(half, func(s soakSample) float64 { return float64(s.Files) })
	r.GoroutinesPerHour = slope(half, func(s soakSample) float64 { return s.Goroutines })
	return r, nil
}

func (u *up) sample(at time.Duration) soakSample {
	fds, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", u.cmd.Process.Pid))
	s := soakSample{At: at.Seconds(), Memory: pss(u.cmd.Process.Pid), All: used(u.cmd.Process.Pid).RSS, Files: len(fds)}
	if st, err := u.status(); err == nil {
		s.Lag, s.Goroutines = st.Worker.Lag, st.Self.Goroutines
	}
	return s
}

// slope is the least-squares slope per hour.
func slope(s []soakSample, f func(soakSample) float64) float64 {
	var n, sx, sy, sxx, sxy float64
	for _, v := range s {
		x, y := v.At/3600, f(v)
		n, sx, sy, sxx, sxy = n+1, sx+x, sy+y, sxx+x*x, sxy+x*y
	}
	if d := n*sxx - sx*sx; d != 0 {
		return (n*sxy - sx*sy) / d
	}
	return 0
}
