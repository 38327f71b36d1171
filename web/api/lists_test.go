package api

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"headroom/agent"
	"headroom/check"
	"headroom/metric"
	"headroom/peer"
)

func TestFindingsGapsTargets(t *testing.T) {
	at := time.Date(2026, 11, 21, 14, 0, 0, 0, time.UTC)
	s := serve(t, func(p *Parts) {
		p.Findings = func() []peer.Inspection {
			return []peer.Inspection{{Host: "here", At: at, Outcome: check.Outcome{Findings: []check.Finding{{Check: "disk.x", Subject: "disk <sda>", Severity: check.Warning, Summary: "s"}}}}}
		}
		p.Gaps = func() []metric.Gap { return nil }
		p.Targets = func() []agent.Target {
			return []agent.Target{{Kind: metric.Postgres, Name: "5432", Found: "socket", DSN: "host=/x password=hunter2"}}
		}
	})
	_, text, _ := s.do(t, "GET", "/api/v1/findings", nil)
	has(t, string(text), `"severity":"warning"`)
	has(t, string(text), `"at":"2026-11-21T14:00:00Z"`)
	if _, text, _ = s.do(t, "GET", "/api/v1/gaps", nil); !strings.HasSuffix(strings.TrimSpace(string(text)), `,"gaps":[]}`) {
		t.Errorf("%s", text)
	}
	_, text, _ = s.do(t, "GET", "/api/v1/targets", nil)
	has(t, string(text), `"name":"5432"`)
	if strings.Contains(string(text), "hunter2") {
		t.Errorf("a password is given out: %s", text)
	}
}

func TestTrialsAndNoWayOutOfTheirFolder(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	write := func(path, text string) {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(dir, "a.json"), `{"format":"headroom-lab","name":"hot-row","question":"what <does> it cost?","started":"2026-11-21T10:00:00Z","took_seconds":3}`)
	write(filepath.Join(dir, "b.json"), `{"format":"headroom-trial","started":"2026-11-21T12:00:00Z"`)
	write(filepath.Join(outside, "secret.json"), `{"a":"root:"}`)
	if err := os.Symlink(filepath.Join(outside, "secret.json"), filepath.Join(dir, "link.json")); err != nil {
		t.Fatal(err)
	}
	s := serve(t, func(p *Parts) { p.Trials = dir })
	var list struct{ Trials []trialJSON }
	if s.get(t, "/api/v1/trials", &list); len(list.Trials) != 2 || list.Trials[0].Name != "a" || list.Trials[0].Title != "what <does> it cost?" || list.Trials[1].Problem == "" {
		t.Errorf("%+v", list)
	}
	if status, text, _ := s.do(t, "GET", "/api/v1/trials/a", nil); status != 200 {
		t.Errorf("%d %s", status, text)
	}
	for _, name := range []string{"link", "none", "..%2f" + filepath.Base(outside) + "%2fsecret", "%2e%2e", "a.json%00", ".hidden"} {
		if status, text, _ := s.do(t, "GET", "/api/v1/trials/"+name, nil); status == 200 || strings.Contains(string(text), "root:") {
			t.Errorf("%s: %d %s", name, status, text)
		}
	}
	none := serve(t, func(p *Parts) { p.Trials = filepath.Join(dir, "not there") })
	if none.get(t, "/api/v1/trials", &list); list.Trials == nil {
		t.Error("a folder that is not there yet is not an empty list")
	}
}
