package watch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"headroom/fail"
	"headroom/host"
	"headroom/web/auth"
)

// site is a running `up` of a test, with a private store.
type site struct {
	t     *testing.T
	dirs  host.Dirs
	url   string
	token string
	stop  func()
	mu    sync.Mutex
	said  []string
	links chan string
}

func testDirs(t *testing.T) host.Dirs {
	t.Helper()
	dir, err := os.MkdirTemp("", "hr-watch-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return host.Dirs{Config: dir, State: filepath.Join(dir, "state"), Run: filepath.Join(dir, "run"), Cache: filepath.Join(dir, "cache")}
}

func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// startSite starts an `up`; the test's end stops it and checks how it ended.
func startSite(t *testing.T, o Options) *site {
	t.Helper()
	if o.Dirs.State == "" {
		o.Dirs = testDirs(t)
	}
	if o.Listen == "" {
		o.Listen = freeAddr(t)
	}
	s := &site{t: t, dirs: o.Dirs, url: "http://" + o.Listen, links: make(chan string, 1)}
	tokens, err := Tokens(o.Dirs)
	if err != nil {
		t.Fatal(err)
	}
	if s.token, err = tokens.Create(fmt.Sprint("t", time.Now().UnixNano()), auth.Read, auth.Write); err != nil {
		t.Fatal(err)
	}
	o.Say, o.Ready = s.say, func(link string) { s.links <- link }
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, o) }()
	var once sync.Once
	s.stop = func() {
		once.Do(func() {
			stop()
			select {
			case err := <-ended:
				if err != nil {
					t.Errorf("it ended with: %v", err)
				}
			case <-time.After(60 * time.Second):
				t.Error("it did not end within 60 s")
			}
		})
	}
	t.Cleanup(s.stop)
	select {
	case <-s.links:
	case err := <-ended:
		t.Fatalf("it ended at the start: %v", err)
	case <-time.After(30 * time.Second):
		t.Fatal("it is not ready within 30 s")
	}
	return s
}

func (s *site) say(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.said = append(s.said, text)
}

func (s *site) heard(part string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Contains(strings.Join(s.said, "\n"), part)
}

// get asks an answer and decodes it.
func (s *site) get(path string, into any) error {
	req, err := http.NewRequest("GET", s.url+"/api/v1/"+path, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+s.token)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", res.Status, b)
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(b, into)
}

// until waits for something to become true.
func (s *site) until(what string, limit time.Duration, true_ func() bool) {
	s.t.Helper()
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if true_() {
			return
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.t.Fatalf("not within %s: %s; it said:\n%s", limit, what, strings.Join(s.said, "\n"))
}

// points counts the points of a metric in the store.
func (s *site) points(match string) int {
	var frame struct{ Lines []struct{ Values []*float64 } }
	if err := s.get("query?from=-1h&to=now&func=count&agg=sum&by=&match="+match, &frame); err != nil {
		return -1
	}
	n := 0.0
	for _, l := range frame.Lines {
		for _, v := range l.Values {
			if v != nil {
				n += *v
			}
		}
	}
	return int(n)
}

func (s *site) send(lines string) (int, string) {
	req, err := http.NewRequest("POST", s.url+"/api/v1/ingest", strings.NewReader(lines))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+s.token)
	req.Header.Set("Content-Type", "application/x-ndjson")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer res.Body.Close()
	b, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(b)
}

func TestUpFindsCollectsStoresAndChecks(t *testing.T) {
	s := startSite(t, Options{})
	s.until("CPU in the store", 30*time.Second, func() bool { return s.points("host_cpu_seconds_total") > 0 })
	s.until("findings of the machine", 30*time.Second, func() bool {
		var f struct {
			Inspections []struct {
				Server  string
				Outcome struct{ Findings, Fine []any }
			}
		}
		return s.get("findings", &f) == nil && len(f.Inspections) > 0 && len(f.Inspections[0].Outcome.Findings)+len(f.Inspections[0].Outcome.Fine) > 0
	})
	s.until("a mark of the boot", 30*time.Second, func() bool {
		var m struct{ Marks []struct{ Kind string } }
		return s.get("marks?from=-1000d&to=now", &m) == nil && len(m.Marks) > 0 && m.Marks[0].Kind == "boot"
	})
	s.until("findings in the store", 30*time.Second, func() bool {
		conn, err := pgx.Connect(t.Context(), "host="+filepath.Join(s.dirs.State, "store", "s")+" port=5432 user=postgres dbname=postgres")
		if err != nil {
			return false
		}
		defer conn.Close(t.Context())
		n := 0
		return conn.QueryRow(t.Context(), "select count(*) from headroom.finding where jsonb_typeof(body) = 'array'").Scan(&n) == nil && n > 0
	})
	before := s.points("host_boot_time_seconds")
	s.stop()
	again := startSite(t, Options{Dirs: s.dirs})
	again.until("what was stored before", 30*time.Second, func() bool { return again.points("host_boot_time_seconds") >= before })
}

func TestASecondUpIsRefusedWithTheHoldersName(t *testing.T) {
	s := startSite(t, Options{NoCollect: true})
	err := Run(t.Context(), Options{Dirs: s.dirs, Listen: freeAddr(t)})
	if fail.Code(err) != fail.Locked || !strings.Contains(err.Error(), fmt.Sprint(os.Getpid())) {
		t.Errorf("a second one on the same folder: %v (exit %d)", err, fail.Code(err))
	}
	link, err := Link(s.dirs)
	if err != nil || !strings.HasPrefix(link, s.url+"/login?code=") {
		t.Errorf("link %q, %v", link, err)
	}
}

// Two `up` in different folders may not share a store.
func TestTwoServersOnOneStore(t *testing.T) {
	s := startSite(t, Options{NoCollect: true})
	s.until("the store", 30*time.Second, func() bool { return s.points("x") == 0 })
	ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
	defer stop()
	dsn := "host=" + filepath.Join(s.dirs.State, "store", "s") + " port=5432 user=postgres dbname=postgres"
	err := Run(ctx, Options{Dirs: testDirs(t), Listen: freeAddr(t), Store: dsn, NoCollect: true})
	if err == nil || strings.Count(err.Error(), fmt.Sprintf("process %d", os.Getpid())) != 1 || fail.Code(err) != fail.Locked {
		t.Errorf("a second server on the store: %v (exit %d); want one that names the holder once, and exit %d", err, fail.Code(err), fail.Locked)
	}
}

func TestStoreKilledComesBackAndNothingIsLost(t *testing.T) {
	s := startSite(t, Options{NoCollect: true})
	s.until("the store", 30*time.Second, func() bool { return s.points("x") == 0 })
	sent := 0
	send := func() {
		code, text := s.send(fmt.Sprintf(`{"name":"a_test_count","labels":{"host":"h"},"at":%d,"value":%d}`+"\n", time.Now().UnixMilli(), sent))
		if code != http.StatusOK {
			t.Fatalf("%d %s", code, text)
		}
		sent++
		time.Sleep(2 * time.Millisecond)
	}
	for range 20 {
		send()
	}
	pid := postmaster(t, s.dirs)
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for range 20 { // while it is away
		send()
	}
	s.until("all points", 60*time.Second, func() bool { return s.points("a_test_count") == sent })
	if postmaster(t, s.dirs) == pid {
		t.Error("the killed server was not started again")
	}
	if !s.heard("started again") {
		t.Error("nobody said that the store's server had ended")
	}
}

func postmaster(t *testing.T, d host.Dirs) (pid int) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(d.State, "store", "data", "postmaster.pid"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscan(string(b), &pid); err != nil {
		t.Fatal(err)
	}
	return pid
}

func TestAgentShipsAndSurvivesAnAbsentServer(t *testing.T) {
	s := startSite(t, Options{NoCollect: true})
	dirs := testDirs(t)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- Agent(ctx, AgentOptions{Dirs: dirs, To: s.url, Token: s.token, Say: func(text string) { t.Log(text) }})
	}()
	s.until("the agent's samples", 40*time.Second, func() bool { return s.points("host_cpu_seconds_total") > 0 })
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := Agent(t.Context(), AgentOptions{Dirs: dirs, To: s.url, Say: func(string) {}}); fail.Code(err) != fail.Usage {
		t.Errorf("without a token: %v", err)
	}
	if err := Agent(t.Context(), AgentOptions{Dirs: dirs, To: "http://10.1.2.3:8420", Token: "x", Say: func(string) {}}); fail.Code(err) != fail.Usage {
		t.Errorf("plain http to another machine: %v", err)
	}
}

func TestOffLoopbackNeedsTLS(t *testing.T) {
	err := Run(t.Context(), Options{Dirs: testDirs(t), Listen: "0.0.0.0:0", NoCollect: true})
	if fail.Code(err) != fail.Usage || !strings.Contains(fail.HintOf(err), "--tls-cert") {
		t.Errorf("%v (hint %q)", err, fail.HintOf(err))
	}
	err = Run(t.Context(), Options{Dirs: testDirs(t), Retention: "1m:never", NoCollect: true})
	if fail.Code(err) != fail.Usage {
		t.Errorf("a bad retention: %v", err)
	}
	if _, err := Link(testDirs(t)); !errors.Is(err, fail.ErrAbsent) {
		t.Errorf("a link without a server: %v", err)
	}
}
