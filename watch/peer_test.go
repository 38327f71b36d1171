package watch

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"headroom/host"
	"headroom/pglocal"
	"headroom/testkit/need"
)

// other is an agent under another name, in a process of its own, that watches
// a server of its own.
type other struct {
	pg   *pglocal.Server
	name string // of the server
	kill func() // -9
}

// agentTo is set in the process that is the agent.
const agentTo = "HEADROOM_TEST_AGENT_TO"

// TestAgentProcess is the agent's process and no test.
func TestAgentProcess(t *testing.T) {
	to := os.Getenv(agentTo)
	if to == "" {
		return
	}
	dir := os.Getenv("HEADROOM_TEST_AGENT_DIR")
	o := AgentOptions{Dirs: host.Dirs{Config: dir, State: filepath.Join(dir, "state"), Run: filepath.Join(dir, "run"), Cache: filepath.Join(dir, "cache")},
		Version: "test", Host: "db2", To: to, Token: os.Getenv("HEADROOM_TOKEN"), Servers: []string{os.Getenv("HEADROOM_TEST_AGENT_DB")}, Every: 3 * time.Second,
		Say: func(text string) { fmt.Println("db2: " + text) }}
	if err := Agent(t.Context(), o); err != nil {
		t.Error(err)
	}
}

func startOther(t *testing.T, s *site) *other {
	t.Helper()
	pg, err := pglocal.Start(t.Context(), pglocal.Options{Name: "other", Settings: map[string]string{"fsync": "off"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pg.Stop() })
	c := exec.Command(os.Args[0], "-test.run=^TestAgentProcess$")
	c.Env = append(os.Environ(), agentTo+"="+s.url, "HEADROOM_TEST_AGENT_DIR="+testDirs(t).Config, "HEADROOM_TEST_AGENT_DB="+pg.DSN(), "HEADROOM_TOKEN="+s.token)
	c.Stdout, c.Stderr = os.Stderr, os.Stderr
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	o := &other{pg: pg, name: fmt.Sprintf("%s:%d", pg.Conn.SocketDir, pg.Conn.Port)}
	var once sync.Once
	o.kill = func() {
		once.Do(func() {
			_ = c.Process.Kill()
			_ = c.Wait() // killed
		})
	}
	t.Cleanup(o.kill)
	return o
}

// sleeper runs a statement that takes long until the test's end.
func (o *other) sleeper(t *testing.T) {
	t.Helper()
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	conn, err := pgx.Connect(ctx, o.pg.DSN()+" application_name=sleeper")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = conn.Exec(ctx, "select pg_sleep(600)") // cut off at the end
	}()
	t.Cleanup(func() {
		stop()
		<-ended
		_ = conn.Close(context.Background())
	})
}

type toldFindings struct {
	Host        string
	Told        time.Time
	Silent      time.Time `json:"silent_since"`
	Inspections []struct {
		Host, Server string
		Outcome      struct {
			Findings []struct {
				Check, Subject, Severity string
				Fixes                    []struct {
					ID   string
					Args map[string]string
				}
			}
		}
	}
}

// fsync says whether the finding of a server without fsync is there, with what
// mends it.
func (f toldFindings) fsync(server string) bool {
	for _, i := range f.Inspections {
		for _, x := range i.Outcome.Findings {
			if i.Host == "db2" && i.Server == server && x.Severity == "danger" && len(x.Fixes) > 0 && x.Fixes[0].ID == "postgres.setting" && x.Fixes[0].Args["fsync"] == "on" {
				return true
			}
		}
	}
	return false
}

type toldHost struct {
	Name, Version string
	Own           bool
	Silent        time.Time `json:"silent_since"`
}

func (s *site) host(name string) (out toldHost) {
	var all struct{ Hosts []toldHost }
	if s.get("hosts", &all) != nil {
		return out
	}
	for _, h := range all.Hosts {
		if h.Name == name {
			return h
		}
	}
	return out
}

// What an agent on another host finds, misses and sees running is answered
// here as if it were of this machine; killed, it is silent and not healthy,
// and a restart of `up` forgets nothing.
func TestAnotherHostTellsOfItself(t *testing.T) {
	need.Have(t, "pg")
	s := startSite(t, Options{Host: "watch1", Every: 3 * time.Second, Silent: 12 * time.Second})
	o := startOther(t, s)
	o.sleeper(t)
	s.until("its finding with the fix", 60*time.Second, func() bool {
		var f toldFindings
		return s.get("findings?host=db2", &f) == nil && f.Host == "db2" && !f.Told.IsZero() && f.Silent.IsZero() && f.fsync(o.name)
	})
	s.until("its gap with the way out", 30*time.Second, func() bool {
		var g struct {
			Gaps []struct{ Collector, Server, Because, Hint string }
		}
		err := s.get("gaps?host=db2", &g)
		for _, x := range g.Gaps {
			if x.Server == o.name && strings.Contains(x.Because+x.Hint, "pg_stat_statements") {
				return err == nil
			}
		}
		return false
	})
	s.until("its targets", 30*time.Second, func() bool {
		var g struct {
			Targets []struct{ Kind, Name, Found string }
		}
		err := s.get("targets?host=db2", &g)
		for _, x := range g.Targets {
			if x.Kind == "postgres" && x.Name == o.name && x.Found != "" {
				return err == nil
			}
		}
		return false
	})
	asleep := func() bool {
		var g struct {
			Server   string
			Sessions []struct {
				Application string
				WaitType    string `json:"wait_type"`
				Wait        string
			}
		}
		err := s.get("sessions?host=db2&server="+o.name, &g)
		for _, x := range g.Sessions {
			if x.Application == "sleeper" && x.Wait == "PgSleep" && x.WaitType == "Timeout" {
				return err == nil && g.Server == o.name
			}
		}
		return false
	}
	s.until("its session that sleeps", 30*time.Second, asleep)
	s.seconds(t, "db2")
	if h := s.host("db2"); !h.Silent.IsZero() || h.Version != "test" || h.Own {
		t.Errorf("the host as listed: %+v", h)
	}
	var own toldFindings
	if err := s.get("findings", &own); err != nil || own.Host != "watch1" || own.fsync(o.name) {
		t.Errorf("the machine's own findings: %v, of %q; those of the other are among them: %v", err, own.Host, own.fsync(o.name))
	}
	s.until("its findings in the store", 20*time.Second, func() bool {
		return s.count(t, "select count(*) from headroom.finding where host = 'db2' and body::text like '%fsync%'") > 0
	})

	o.kill()
	s.until("silence", 40*time.Second, func() bool { return !s.host("db2").Silent.IsZero() })
	var f toldFindings
	if err := s.get("findings?host=db2", &f); err != nil || f.Silent.IsZero() || !f.fsync(o.name) {
		t.Errorf("findings of a silent host: %v, silent since %s", err, f.Silent)
	}
	if err := s.get("sessions?host=db2&server="+o.name, &struct{}{}); err == nil || !strings.Contains(err.Error(), "503") || !strings.Contains(err.Error(), "silent since") {
		t.Errorf("sessions of a silent host: %v", err)
	}
	s.stop()
	again := startSite(t, Options{Dirs: s.dirs, Host: "watch1", Every: 3 * time.Second, Silent: 12 * time.Second})
	again.until("what was told before the restart", 30*time.Second, func() bool {
		var f toldFindings
		return again.get("findings?host=db2", &f) == nil && !f.Silent.IsZero() && f.fsync(o.name)
	})
}

func (s *site) count(t *testing.T, sql string) (n int) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), storeDSN(s.dirs))
	if err != nil {
		return -1
	}
	defer conn.Close(t.Context())
	if err := conn.QueryRow(t.Context(), sql).Scan(&n); err != nil {
		return -1
	}
	return n
}

// seconds waits until readings of a host come each second: somebody looks.
func (s *site) seconds(t *testing.T, host string) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 60*time.Second)
	defer stop()
	req, err := http.NewRequestWithContext(ctx, "GET", s.url+`/api/v1/live?match=host_boot_time_seconds%7Bhost%3D%22`+host+`%22%7D`, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+s.token)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	in, last := bufio.NewScanner(res.Body), int64(0)
	for in.Scan() {
		text, ok := strings.CutPrefix(in.Text(), "data: ")
		var e struct {
			Rows []struct{ Points [][2]float64 }
		}
		if !ok || json.Unmarshal([]byte(text), &e) != nil {
			continue
		}
		for _, r := range e.Rows {
			for _, p := range r.Points {
				if at := int64(p[0]); last != 0 && at-last == 1000 {
					return
				} else if at > last {
					last = at
				}
			}
		}
	}
	t.Errorf("no two readings of %s came a second apart: %v", host, in.Err())
}

// An agent that meets an older Headroom ships its samples as before, and says
// once what is not shown there.
func TestAgentMeetsAnOlderHeadroom(t *testing.T) {
	var mu sync.Mutex
	batches, told := 0, 0
	older := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		mu.Lock()
		defer mu.Unlock()
		if r.URL.Path == "/api/v1/ingest/batch" {
			batches++
			fmt.Fprint(w, `{"accepted":1,"rejected":0,"batches":1}`)
			return
		}
		told++
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"error":"there is no POST \"/api/v1/ingest/state\""}`)
	}))
	defer older.Close()
	said := make(chan string, 100)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- Agent(ctx, AgentOptions{Dirs: testDirs(t), To: older.URL, Token: "x", Every: time.Second, Say: func(text string) { said <- text }})
	}()
	heard := ""
	for end := time.After(60 * time.Second); !strings.Contains(heard, "it is older"); {
		select {
		case text := <-said:
			heard += text + "\n"
		case <-end:
			t.Fatalf("in 60 s it said only: %s", heard)
		}
	}
	need.Eventually(t, 60*time.Second, "samples still come", func() bool { mu.Lock(); defer mu.Unlock(); return batches > 1 })
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if told != 1 || strings.Count(heard, "not shown there") != 1 {
		t.Errorf("told %d times, said:\n%s", told, heard)
	}
}
