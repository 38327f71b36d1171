package nginx

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"headroom/host"
	"headroom/metric"
	"headroom/testkit"
	"headroom/testkit/need"
)

const format = `$status $request_time $bytes_sent "$upstream_addr" "$upstream_status" "$upstream_connect_time" "$upstream_header_time" "$upstream_response_time" $request_method`

// watching runs the collectors of one nginx as the agent does: with the same
// memory each time.
type watching struct {
	t    *testing.T
	r    host.Reader
	conf string
	mem  map[*metric.Collector]*metric.Memory
	disk *disk
}

// disk is what outlives a restart.
type disk struct{ b []byte }

func (d *disk) Load() ([]byte, error) { return d.b, nil }
func (d *disk) Save(b []byte) error   { d.b = b; return nil }

// restart forgets all but what is on the disk.
func (w *watching) restart() { w.mem = map[*metric.Collector]*metric.Memory{} }

// read returns the samples of both collectors by series, without the label
// server.
func (w *watching) read() map[string]float64 {
	w.t.Helper()
	got := map[string]float64{}
	for _, c := range Topic.Collectors {
		out := metric.NewOut(c, time.Now(), metric.Label{Name: "server", Value: w.conf})
		if w.mem[c] == nil {
			w.mem[c] = &metric.Memory{}
			if w.disk != nil && c == logCollector {
				w.mem[c].Keep = w.disk
			}
		}
		out.Memory = w.mem[c]
		if err := c.Collect(w.t.Context(), w.r, out); err != nil || out.Err() != nil {
			w.t.Fatal(err, out.Err())
		}
		if len(out.Gaps) > 0 {
			w.t.Errorf("gaps = %+v", out.Gaps)
		}
		for _, row := range out.Rows {
			key := strings.NewReplacer(`,server="`+w.conf+`"`, "", `server="`+w.conf+`",`, "", `{server="`+w.conf+`"}`, "").Replace(row.Series.Key())
			got[key] = row.Points[0].Value
		}
	}
	return got
}

func ask(t *testing.T, method, url string, status int) {
	t.Helper()
	req, err := http.NewRequest(method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, res.Body)
	res.Body.Close()
	if res.StatusCode != status {
		t.Fatalf("%s %s: %s, want %d", method, url, res.Status, status)
	}
}

// A real nginx in front of two real servers and one that is down: requests are
// counted by the server that answered, through a rotation of the log.
func TestRequestsByUpstream(t *testing.T) {
	need.Have(t, "nginx")
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			time.Sleep(250 * time.Millisecond)
		}
		if r.URL.Path == "/broken" {
			w.WriteHeader(http.StatusInternalServerError)
		}
		fmt.Fprint(w, "hello")
	}))
	defer slow.Close()
	live, dead := slow.Listener.Addr().String(), fmt.Sprintf("127.0.0.1:%d", testkit.Port(t))
	url, conf := testkit.Nginx(t, format, live, dead)
	r := host.Open(host.Options{})
	defer r.Close()
	need.Eventually(t, 10*time.Second, "nginx answers", func() bool {
		_, err := r.Get(t.Context(), url+"/status")
		return err == nil
	})
	ask(t, "GET", url+"/before", 200)
	w := &watching{t: t, r: r, conf: conf, mem: map[*metric.Collector]*metric.Memory{}}
	first := w.read()
	if n := first[`nginx_log_requests_total{status="2xx"}`]; n != 0 {
		t.Errorf("%v requests from before we began were counted", n)
	}
	for range 10 {
		ask(t, "GET", url+"/x", 200) // every second one is tried at the dead server first
	}
	ask(t, "POST", url+"/slow", 200)
	ask(t, "GET", url+"/broken", 500)
	log := filepath.Join(filepath.Dir(conf), "by_upstream.log")
	var got map[string]float64
	need.Eventually(t, 10*time.Second, "all lines are counted", func() bool {
		got = w.read()
		return got[`nginx_log_requests_total{status="2xx"}`] == 11 && got[`nginx_log_requests_total{status="5xx"}`] == 1
	})
	if a := got[fmt.Sprintf(`nginx_upstream_attempts_total{status="2xx",upstream=%q}`, live)]; a != 11 {
		t.Errorf("%v attempts at the live server with 2xx, want 11: %v", a, got)
	}
	if a := got[fmt.Sprintf(`nginx_upstream_attempts_total{status="5xx",upstream=%q}`, dead)]; a < 4 {
		t.Errorf("%v attempts at the dead server, want at least 4: %v", a, got)
	}
	if s := got[fmt.Sprintf(`nginx_upstream_seconds_total{upstream=%q}`, live)]; s < 0.24 || s > 5 {
		t.Errorf("the live server took %v s, want 0.25 and a little", s)
	}
	if n := got["nginx_requests_total"] - first["nginx_requests_total"]; n < 13 {
		t.Errorf("the status page counts %v requests more, want the 12 and its own", n)
	}
	if got[`nginx_connections{state="writing"}`] < 1 || got["nginx_log_odd_lines_total"] != 0 {
		t.Errorf("%v", got)
	}
	// Rotation as logrotate does it: rename, then nginx reopens.
	if err := os.Rename(log, log+".1"); err != nil {
		t.Fatal(err)
	}
	ask(t, "GET", url+"/still-into-the-old-file", 200)
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
	defer stop()
	if _, err := (host.Cmd{Argv: []string{"nginx", "-e", "/dev/null", "-c", conf, "-s", "reopen"}}).Run(ctx, 1<<10); err != nil {
		t.Fatal(err)
	}
	need.Eventually(t, 10*time.Second, "nginx opens its log anew", func() bool { _, err := os.Stat(log); return err == nil })
	ask(t, "GET", url+"/into-the-new-file", 200)
	need.Eventually(t, 10*time.Second, "both files are read", func() bool {
		got = w.read()
		return got[`nginx_log_requests_total{status="2xx"}`] == 13
	})
}

// What is logged while nobody reads is counted after the restart, through a
// rotation, and what was counted is not counted again, also where the kill came
// before it was kept.
func TestCountsGoOnAfterARestart(t *testing.T) {
	need.Have(t, "nginx")
	live := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") }))
	defer live.Close()
	url, conf := testkit.Nginx(t, format, live.Listener.Addr().String())
	r := host.Open(host.Options{})
	defer r.Close()
	need.Eventually(t, 30*time.Second, "nginx answers", func() bool {
		_, err := r.Get(t.Context(), url+"/status")
		return err == nil
	})
	w := &watching{t: t, r: r, conf: conf, mem: map[*metric.Collector]*metric.Memory{}, disk: &disk{}}
	asked := 0
	requests := func(n int) {
		for range n {
			ask(t, "GET", url+"/x", 200)
		}
		asked += n
	}
	counted := func(when string) {
		t.Helper()
		var got float64
		need.Eventually(t, 30*time.Second, when, func() bool {
			got = w.read()[`nginx_log_requests_total{status="2xx"}`]
			return got >= float64(asked)
		})
		if got = w.read()[`nginx_log_requests_total{status="2xx"}`]; got != float64(asked) {
			t.Errorf("%s: %v requests, want %d", when, got, asked)
		}
	}
	w.read()
	requests(3)
	counted("at first")
	before := w.disk.b
	requests(2)
	counted("later")
	w.disk.b = before
	w.restart()
	counted("after a kill that came before the last round was kept")
	requests(4)
	log := filepath.Join(filepath.Dir(conf), "by_upstream.log")
	if err := os.Rename(log, log+".1"); err != nil {
		t.Fatal(err)
	}
	w.restart()
	requests(1) // into the old file
	ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
	defer stop()
	if _, err := (host.Cmd{Argv: []string{"nginx", "-e", "/dev/null", "-c", conf, "-s", "reopen"}}).Run(ctx, 1<<10); err != nil {
		t.Fatal(err)
	}
	need.Eventually(t, 30*time.Second, "nginx opens its log anew", func() bool { _, err := os.Stat(log); return err == nil })
	requests(5)
	w.restart()
	counted("after restarts during a rotation")
	w.disk.b = []byte(`{"form":99}`)
	w.restart()
	out := metric.NewOut(logCollector, time.Now(), metric.Label{Name: "server", Value: conf})
	out.Memory.Keep = w.disk
	if err := logCollector.Collect(t.Context(), r, out); err != nil || len(out.Gaps) != 1 || !strings.Contains(out.Gaps[0].Because, "form 99") {
		t.Errorf("a form that is not known: %v, gaps %+v", err, out.Gaps)
	}
}

// A server that takes the connection and never answers costs its deadline.
func TestAStatusPageThatHangs(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			defer c.Close()
		}
	}()
	dir := t.TempDir()
	conf := filepath.Join(dir, "nginx.conf")
	text := fmt.Sprintf("http { server { listen %s; location /s { stub_status; } } }", l.Addr())
	if err := os.WriteFile(conf, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	r := host.Open(host.Options{})
	defer r.Close()
	out := metric.NewOut(statusCollector, time.Now(), metric.Label{Name: "server", Value: conf})
	if err := statusCollector.Collect(t.Context(), r, out); err == nil || !strings.Contains(err.Error(), "does not answer in time") {
		t.Errorf("a page that hangs: %v", err)
	}
}
