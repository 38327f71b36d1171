package watch

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"headroom/pglocal"
	"headroom/testkit/need"
)

// other is an agent under another name that watches a server of its own.
type other struct {
	pg   *pglocal.Server
	name string // of the server
	stop func()
}

func startOther(t *testing.T, s *site) *other {
	t.Helper()
	pg, err := pglocal.Start(t.Context(), pglocal.Options{Name: "other", Settings: map[string]string{"fsync": "off"}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() {
		ended <- Agent(ctx, AgentOptions{Dirs: testDirs(t), Version: "test", Host: "db2", To: s.url, Token: s.token, Servers: []string{pg.DSN()}, Every: 3 * time.Second, Say: func(text string) { t.Log("db2: " + text) }})
	}()
	o := &other{pg: pg, name: fmt.Sprintf("%s:%d", pg.Conn.SocketDir, pg.Conn.Port)}
	stopped := false
	o.stop = func() {
		if stopped {
			return
		}
		stopped = true
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the agent ended with: %v", err)
		}
	}
	t.Cleanup(func() {
		o.stop()
		_ = pg.Stop()
	})
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
		var g struct{ Targets []struct{ Kind, Name, Found string } }
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
	if h := s.host("db2"); !h.Silent.IsZero() || h.Version != "test" || h.Own {
		t.Errorf("the host as listed: %+v", h)
	}
	var own toldFindings
	if err := s.get("findings", &own); err != nil || own.Host != "watch1" || own.fsync(o.name) {
		t.Errorf("the machine's own findings: %v, of %q; those of the other are among them: %v", err, own.Host, own.fsync(o.name))
	}
	s.until("its findings in the store", 20*time.Second, func() bool { return s.count(t, "select count(*) from headroom.finding where host = 'db2' and body::text like '%fsync%'") > 0 })

	o.stop()
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
