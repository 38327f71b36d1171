package disk

import (
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"headroom/host"
	"headroom/metric"
)

// deadServer is a machine with a network mount whose server is gone.
type deadServer struct {
	*host.Fake
	asked  atomic.Int64
	answer chan struct{}
}

func (d *deadServer) Space(path string) (host.Space, error) {
	if path == "/mnt/nas" {
		d.asked.Add(1)
		<-d.answer
	}
	return d.Fake.Space(path)
}

// A mount that hangs is a gap, costs the others nothing but a second, and is
// not asked again until it has answered.
func TestAMountThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &deadServer{answer: make(chan struct{}), Fake: &host.Fake{
			Files:  map[string]string{"/proc/self/mountinfo": "27 1 259:1 / / rw - ext4 /dev/sda1 rw\n30 27 0:40 / /mnt/nas rw - nfs4 nas:/x rw\n31 27 0:41 / /mnt/ok rw - nfs4 ok:/x rw\n"},
			Spaces: map[string]host.Space{"/": {Total: 1}, "/mnt/nas": {Total: 2}, "/mnt/ok": {Total: 3}},
		}}
		memory := &metric.Memory{}
		round := func() (series, gaps string, took time.Duration) {
			out := metric.NewOut(spaceCollector, time.Now())
			out.Memory = memory
			begin := time.Now()
			if err := spaceCollector.Collect(t.Context(), d, out); err != nil {
				t.Fatal(err)
			}
			for _, r := range out.Rows {
				series += r.Series.Key() + "\n"
			}
			for _, g := range out.Gaps {
				gaps += g.Because + " | " + g.Hint
			}
			return series, gaps, time.Since(begin)
		}
		for range 3 {
			series, gaps, took := round()
			if !strings.Contains(series, `mount="/"`) || !strings.Contains(series, `mount="/mnt/ok"`) || strings.Contains(series, "nas") {
				t.Errorf("series = %s", series)
			}
			if !strings.Contains(gaps, "/mnt/nas (nfs4 from nas:/x): no answer within 1s | bring back") || took > spaceWait {
				t.Errorf("gaps = %s, took %s", gaps, took)
			}
		}
		if n := d.asked.Load(); n != 1 {
			t.Errorf("asked %d times: each question holds a thread", n)
		}
		close(d.answer)
		synctest.Wait()
		for range 2 {
			if series, gaps, _ := round(); !strings.Contains(series, `mount="/mnt/nas"`) || gaps != "" {
				t.Errorf("after it came back: %s, gaps %s", series, gaps)
			}
		}
		if n := d.asked.Load(); n != 2 {
			t.Errorf("asked %d times in all, want 2: the answer that was late is taken", n)
		}
	})
}
