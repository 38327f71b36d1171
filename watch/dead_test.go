package watch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"headroom/fail"
	"headroom/host"
	"headroom/metric"
	"headroom/queue"
	"headroom/testkit/need"
)

// deepDirs lie so deep that a Unix socket's path would be too long.
func deepDirs(t *testing.T) host.Dirs {
	d := testDirs(t)
	d.State = filepath.Join(d.Config, strings.Repeat("deep/", 20), "state")
	if err := os.MkdirAll(d.State, 0o711); err != nil {
		t.Fatal(err)
	}
	return d
}

// setAside has the queue of a folder hold n batches that were set aside, and
// returns the names of their series.
func setAside(t *testing.T, d host.Dirs, n int) (names []string) {
	t.Helper()
	p := upPlace(d)
	if err := p.make(); err != nil {
		t.Fatal(err)
	}
	q, err := queue.Open(t.Context(), queue.Options{Dir: p.path("queue")})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	for i := range n {
		names = append(names, fmt.Sprintf("dead%d_test_count", i))
		s, err := metric.NewSeries(names[i], []metric.Label{{Name: "host", Value: "db7"}})
		if err != nil {
			t.Fatal(err)
		}
		now := time.Now().UnixMilli()
		b := &metric.Batch{ID: metric.NewID(), Origin: "db7", Rows: []metric.Row{{Series: s, Points: []metric.Point{{At: now - 1000, Value: 1}, {At: now, Value: 2}}}}}
		if err := q.Put(t.Context(), b.Encode(nil)); err != nil {
			t.Fatal(err)
		}
	}
	for left := n; left > 0; {
		ms, err := q.Fetch(t.Context(), left)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range ms {
			if err := m.Kill(t.Context(), "refused by a trigger"); err != nil {
				t.Fatal(err)
			}
			left--
		}
	}
	return names
}

// work on what was set aside, as a verb does.
func (s *site) dead(d host.Dirs, do func(context.Context, *Dead) error) {
	s.t.Helper()
	x, err := OpenDead(s.t.Context(), Options{Dirs: d})
	if err == nil {
		err = errors.Join(do(s.t.Context(), x), x.Close())
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// What was set aside is listed, brought back and dropped while `up` runs and
// while it does not, and what comes back is stored once.
func TestDead(t *testing.T) {
	dirs := deepDirs(t)
	if _, err := OpenDead(t.Context(), Options{Dirs: dirs}); !errors.Is(err, fail.ErrAbsent) || fail.HintOf(err) == "" {
		t.Fatalf("where nothing was watched: %v", err)
	}
	names := setAside(t, dirs, 203) // more than one request takes
	var ids []string
	list := func(want int) func(context.Context, *Dead) error {
		return func(ctx context.Context, d *Dead) error {
			all, err := d.All(ctx)
			if len(all) != want {
				t.Errorf("%d are set aside, want %d", len(all), want)
			}
			ids = ids[:0]
			for _, l := range all {
				ids = append(ids, l.ID)
				if l.Origin != "db7" || l.Reason != "refused by a trigger" || l.Points != 2 || l.Series != 1 || time.Since(l.To) > time.Minute || l.To.Sub(l.From) != time.Second {
					t.Errorf("%+v", l)
				}
			}
			return err
		}
	}
	s := &site{t: t}
	s.dead(dirs, list(203))
	newest := ids[0]
	s.dead(dirs, func(ctx context.Context, d *Dead) error { // the newest of the batches, to be stored at the start
		out, err := d.Retry(ctx, []string{newest, newest})
		if out.Done != 1 || len(out.Failed) != 1 || out.Failed[0].ID != newest {
			t.Errorf("where no up runs: %+v", out)
		}
		return err
	})

	s = startSite(t, Options{Dirs: dirs, NoCollect: true})
	s.until("the batch that was put back is stored", 60*time.Second, func() bool { return s.points(names[202]) == 2 })
	s.dead(dirs, list(202))
	s.dead(dirs, func(ctx context.Context, d *Dead) error {
		out, err := d.Drop(ctx, []string{ids[0], newest})
		if out.Done != 1 || len(out.Failed) != 1 || !strings.Contains(out.Failed[0].Why, "no such dead letter") {
			t.Errorf("while up runs: %+v", out)
		}
		return err
	})
	s.dead(dirs, list(201))
	s.dead(dirs, func(ctx context.Context, d *Dead) error {
		out, err := d.Retry(ctx, ids)
		if out.Done != 201 || len(out.Failed) > 0 {
			t.Errorf("%+v", out)
		}
		return err
	})
	s.dead(dirs, list(0))
	s.until("all are stored", 30*time.Second, func() bool { return s.points(names[0]) == 2 && s.points(names[200]) == 2 })
	if n := s.points(names[201]); n > 0 {
		t.Errorf("%d points of what was dropped", n)
	}
	if n, err := os.ReadFile(upPlace(dirs).path("sessions.json")); err != nil || strings.Contains(string(n), "a command of this machine") {
		t.Errorf("sessions of commands are left: %s, %v", n, err)
	}
}

// A folder of another account is not written into.
func TestDeadOfAnotherAccount(t *testing.T) {
	need.Have(t, "root")
	dirs := testDirs(t)
	setAside(t, dirs, 1)
	if err := os.Chown(upPlace(dirs).path("queue"), 65534, 65534); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenDead(t.Context(), Options{Dirs: dirs}); err == nil || !strings.Contains(fail.HintOf(err), "nobody") {
		t.Errorf("%v, hint %q", err, fail.HintOf(err))
	}
}

// A host that was taken away is forgotten when it is silent, also over a
// restart, and is back when it speaks.
func TestForgetHost(t *testing.T) {
	dirs := testDirs(t)
	if err := ForgetHost(t.Context(), dirs, "web7"); !errors.Is(err, fail.ErrAbsent) || fail.HintOf(err) == "" {
		t.Fatalf("where nothing runs: %v", err)
	}
	o := Options{Dirs: dirs, NoCollect: true, Silent: 2 * time.Second}
	s := startSite(t, o)
	s.until("samples are stored", 60*time.Second, func() bool { return sent(s) && s.points("gone_test_count") > 0 })
	if err := ForgetHost(t.Context(), dirs, "web8"); err == nil || !strings.Contains(err.Error(), "nothing was heard") {
		t.Errorf("of one that nobody heard of: %v", err)
	}
	speaks := func() bool {
		err := ForgetHost(t.Context(), dirs, "web7")
		return err != nil && strings.Contains(err.Error(), "it speaks") && fail.HintOf(err) != ""
	}
	s.until("one that speaks is not forgotten", 30*time.Second, func() bool { return sent(s) && speaks() })
	s.until("it is silent", 30*time.Second, func() bool { return ForgetHost(t.Context(), dirs, "web7") == nil })
	before := s.points("gone_test_count")
	s.stop()

	s = startSite(t, o)
	s.until("it stays forgotten", 30*time.Second, func() bool {
		err := ForgetHost(t.Context(), dirs, "web7")
		return err != nil && strings.Contains(err.Error(), "nothing was heard")
	})
	if n := s.points("gone_test_count"); n < before {
		t.Errorf("%d points of it are left of %d", n, before)
	}
	s.until("it is back", 30*time.Second, func() bool { return sent(s) && speaks() })
}

// sent has web7 bring a sample.
func sent(s *site) bool {
	if status, body := s.send(`{"name":"gone_test_count","labels":{"host":"web7"},"value":1}`); status != 200 {
		s.t.Errorf("%d %s", status, body)
	}
	return true
}
