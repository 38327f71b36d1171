package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"headroom/stats"
)

// One request holds the samples of 50 hosts at one time: 10,000 points.
const (
	ingestHosts   = 500 // 100,000 series
	requestHosts  = 50
	ingestPer     = 200
	ingestSenders = 4
)

// ingestRound is one round of one side.
type ingestRound struct {
	Points      int
	Acked       float64 // seconds until the last request was answered
	Stored      float64 // seconds until all was in the store; VictoriaMetrics: as Acked
	Rate        float64 // points/s until stored
	CPUSeconds  float64 // of the server and its children
	PointsByCPU float64
}

type ingestResult struct {
	What                     string
	Ours, VictoriaMetrics    []ingestRound
	Rate, PeerRate           float64   // median points/s
	ByCPU, PeerByCPU         float64   // median points per CPU-second
	Ratio, RatioByCPU        []float64 // ours by theirs, round for round
	MedianRatio, MedianByCPU float64
}

// ingest sends the same bodies to both in turns, flat out; the servers share
// two cores, the sender has the others.
func ingest(ctx context.Context, b *bench) (any, error) {
	u, err := b.newUp("up", "--no-collect")
	if err != nil {
		return nil, err
	}
	u.args, u.program = append([]string{"-c", "0,1", u.program}, u.args...), "/usr/bin/taskset"
	if _, err := u.start(ctx); err != nil {
		return nil, err
	}
	defer func() { _ = u.stop() }()
	vm, vmURL, err := victoria(b.dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = vm.Process.Kill(); _ = vm.Wait() }()
	f, err := newFleet(ingestHosts, ingestPer)
	if err != nil {
		return nil, err
	}
	res := ingestResult{What: fmt.Sprintf("Prometheus remote-write, %d points a request, %d series, %d senders, servers on 2 cores; ours acknowledges after fsync and counts until stored, VictoriaMetrics acknowledges before", requestHosts*ingestPer, ingestHosts*ingestPer, ingestSenders)}
	at := time.Now().Add(-3 * time.Hour).UnixMilli()
	for round := range b.rounds + 1 { // the first is a warm-up
		bodies, points := f.bodies(&at, int(b.seconds.Seconds())*500_000)
		ours, err := sendAll(ctx, u.url+"/api/v1/write", u.token, u.cmd.Process.Pid, bodies, points, func() error { return u.settled(ctx, 5*time.Minute) })
		if err != nil {
			return nil, fmt.Errorf("ours: %w", err)
		}
		theirs, err := sendAll(ctx, vmURL+"/api/v1/write", "", vm.Process.Pid, bodies, points, func() error { return nil })
		if err != nil {
			return nil, fmt.Errorf("VictoriaMetrics: %w", err)
		}
		b.note("round %d: ours %.0f k/s acked, %.0f k/s stored, %.0f k by CPU-s; theirs %.0f k/s, %.0f k by CPU-s", round,
			float64(points)/ours.Acked/1e3, ours.Rate/1e3, ours.PointsByCPU/1e3, theirs.Rate/1e3, theirs.PointsByCPU/1e3)
		if round > 0 {
			res.Ours, res.VictoriaMetrics = append(res.Ours, ours), append(res.VictoriaMetrics, theirs)
		}
	}
	res.sum()
	return res, nil
}

func (r *ingestResult) sum() {
	var rate, peer, by, peerBy []float64
	for i := range r.Ours {
		rate, peer = append(rate, r.Ours[i].Rate), append(peer, r.VictoriaMetrics[i].Rate)
		by, peerBy = append(by, r.Ours[i].PointsByCPU), append(peerBy, r.VictoriaMetrics[i].PointsByCPU)
		r.Ratio = append(r.Ratio, rate[i]/peer[i])
		r.RatioByCPU = append(r.RatioByCPU, by[i]/peerBy[i])
	}
	mid := func(v []float64) float64 { return stats.Quantile(v, 0.5) }
	r.Rate, r.PeerRate, r.ByCPU, r.PeerByCPU = mid(rate), mid(peer), mid(by), mid(peerBy)
	r.MedianRatio, r.MedianByCPU = mid(r.Ratio), mid(r.RatioByCPU)
}

// bodies makes requests with so many points in all; at moves on by 10 s for
// each time that all hosts have sent.
func (f *fleet) bodies(at *int64, points int) (out [][]byte, sent int) {
	for sent < points {
		*at += 10_000
		for h := 0; h < f.hosts(); h += requestHosts {
			out = append(out, f.remote(h, h+requestHosts, []int64{*at}))
			sent += requestHosts * f.per
		}
	}
	return out, sent
}

func sendAll(ctx context.Context, url, token string, pid int, bodies [][]byte, points int, settled func() error) (ingestRound, error) {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: ingestSenders}, Timeout: time.Minute}
	before, began := used(pid), time.Now()
	var next atomic.Int64
	var all sync.WaitGroup
	errs := make([]error, ingestSenders)
	for s := range ingestSenders {
		all.Go(func() {
			for i := next.Add(1) - 1; int(i) < len(bodies) && errs[s] == nil; i = next.Add(1) - 1 {
				errs[s] = sendOne(ctx, client, url, token, bodies[i])
			}
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return ingestRound{}, err
	}
	r := ingestRound{Points: points, Acked: time.Since(began).Seconds()}
	if err := settled(); err != nil {
		return r, err
	}
	r.Stored = time.Since(began).Seconds()
	r.CPUSeconds = used(pid).CPU - before.CPU
	r.Rate, r.PointsByCPU = float64(points)/r.Stored, float64(points)/r.CPUSeconds
	return r, nil
}

// sendOne sends until it is taken: 503 asks to come again.
func sendOne(ctx context.Context, client *http.Client, url, token string, body []byte) error {
	for {
		code, text, err := post(ctx, client, url, token, "application/x-protobuf", body, "Content-Encoding", "snappy", "X-Prometheus-Remote-Write-Version", "0.1.0")
		switch {
		case err != nil:
			return err
		case code/100 == 2:
			return nil
		case code != http.StatusServiceUnavailable && code != http.StatusTooManyRequests:
			return fmt.Errorf("POST %s: %d %s", url, code, text)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func victoria(dir string) (*exec.Cmd, string, error) {
	addr, err := freePort()
	if err != nil {
		return nil, "", err
	}
	c := exec.Command("/usr/bin/taskset", "-c", "0,1", "victoria-metrics", "-storageDataPath", filepath.Join(dir, "vm"), "-httpListenAddr", addr, "-loggerLevel", "ERROR", "-retentionPeriod", "1")
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if log, err := os.Create(filepath.Join(dir, "vm.log")); err == nil {
		c.Stdout, c.Stderr = log, log
	}
	if err := c.Start(); err != nil {
		return nil, "", fmt.Errorf("start victoria-metrics (apt-get install victoria-metrics): %w", err)
	}
	for range 200 {
		if res, err := http.Get("http://" + addr + "/health"); err == nil {
			return c, "http://" + addr, res.Body.Close()
		}
		time.Sleep(50 * time.Millisecond)
	}
	return nil, "", errors.Join(errors.New("victoria-metrics does not answer"), c.Process.Kill())
}
