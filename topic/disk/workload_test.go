package disk

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"headroom/fail"
	"headroom/host"
	"headroom/testkit/need"
	"headroom/trial"
)

func stand(t *testing.T) *trial.Stand {
	t.Helper()
	return &trial.Stand{Name: "scratch", Host: host.Open(host.Options{}), Dir: t.TempDir(), Live: true}
}

func make16(t *testing.T, w *trial.Workload, more map[string]string) trial.Work {
	t.Helper()
	p := map[string]string{}
	for _, q := range w.Params {
		p[q.Name] = q.Default
	}
	p["size"] = "16MB"
	for k, v := range more {
		p[k] = v
	}
	for _, q := range w.Params {
		if q.Check != nil && q.Check(p[q.Name]) != nil {
			t.Fatalf("%s=%s: %v", q.Name, p[q.Name], q.Check(p[q.Name]))
		}
	}
	work, err := w.New(p)
	if err != nil {
		t.Fatal(err)
	}
	return work
}

func TestRounds(t *testing.T) {
	for name, work := range map[string]trial.Work{
		"randread": make16(t, RandRead, nil),
		"mixed":    make16(t, RandRead, map[string]string{"reads": "50", "block": "4kB"}),
		"seqread":  make16(t, SeqRead, nil),
	} {
		t.Run(name, func(t *testing.T) { roundsOf(t, work) })
	}
}

func roundsOf(t *testing.T, work trial.Work) {
	ctx, s := context.Background(), stand(t)
	if err := work.Setup(ctx, s, func(string) {}); err != nil {
		t.Fatal(err)
	}
	session, err := work.Open(ctx, s)
	if err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(2) {
		r, err := session.Run(ctx, 200*time.Millisecond, trial.RoundOptions{Seed: seed})
		if err != nil && strings.Contains(err.Error(), "O_DIRECT") {
			need.Without(t, "direct-io", "the temporary folder is memory: set TMPDIR to one on a disk")
		}
		if err != nil || r.Done == 0 || r.Failed != 0 || r.Figures["rate"] <= 0 || r.Figures["p99"] < r.Figures["p50"] || r.Latency.TotalCount() != r.Done {
			t.Fatalf("round = %+v, %v", r, err)
		}
		t.Logf("%v", r.Figures)
	}
	slow, err := session.Run(ctx, 300*time.Millisecond, trial.RoundOptions{Seed: 1, Rate: 50})
	if err != nil || slow.Done == 0 || slow.Done > 60 {
		t.Errorf("at 50 per second for 0.3 s: %d done, %v", slow.Done, err)
	}
	short, stop := context.WithTimeout(ctx, 50*time.Millisecond)
	defer stop()
	start := time.Now()
	if _, err := session.Run(short, time.Minute, trial.RoundOptions{}); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) > 5*time.Second {
		t.Errorf("cancelled: %v after %s", err, time.Since(start))
	}
	if err := errors.Join(session.Close(), work.Teardown(ctx, s), work.Teardown(ctx, s)); err != nil {
		t.Fatal(err)
	}
	empty(t, s)
}

func empty(t *testing.T, s *trial.Stand) {
	t.Helper()
	left, err := os.ReadDir(s.Dir)
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestSetupLeavesNothingWhenItFails(t *testing.T) {
	s := stand(t)
	ctx, stop := context.WithCancel(context.Background())
	work := make16(t, RandRead, map[string]string{"size": "64MB"})
	if err := work.Setup(ctx, s, func(string) { stop() }); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
	empty(t, s)
	s.Host = &host.Fake{Spaces: map[string]host.Space{s.Dir: {Total: 1 << 40, Avail: 20 << 20}}}
	if err := work.Setup(context.Background(), s, func(string) {}); err == nil || !strings.Contains(err.Error(), "20 MB of free room") || fail.HintOf(err) == "" {
		t.Errorf("no room: %v", err)
	}
	empty(t, s)
}

// A file that another workload's Setup would overwrite is not touched.
func TestSetupRefusesAForeignFile(t *testing.T) {
	s := stand(t)
	if err := os.WriteFile(scratchPath(s), []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := make16(t, SeqRead, nil).Setup(context.Background(), s, func(string) {}); !errors.Is(err, unix.EEXIST) {
		t.Errorf("foreign file: %v", err)
	}
	if b, _ := os.ReadFile(scratchPath(s)); string(b) != "mine" {
		t.Error("the foreign file was changed")
	}
}

func TestParameters(t *testing.T) {
	for _, w := range []*trial.Workload{RandRead, SeqRead} {
		for name, bad := range map[string][]string{"block": {"1kB", "6000", "2MB", "x", "8 parsecs"}, "clients": {"0", "many"}, "size": {"1MB", "-5", "10%"}} {
			for _, p := range w.Params {
				for _, v := range bad {
					if p.Name == name && p.Check(v) == nil {
						t.Errorf("%s %s=%s was taken", w.Name, name, v)
					}
				}
			}
		}
	}
}
