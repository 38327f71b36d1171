package page

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"headroom/agent"
	"headroom/change"
	"headroom/check"
	"headroom/metric"
	"headroom/peer"
	"headroom/topic/postgres"
	"headroom/web/api"
)

// others are pages of db1 that hears db2, which tells of itself, and web1,
// which sends figures only.
func others(t *testing.T) (h http.Handler, book *peer.Book, now *time.Time) {
	t.Helper()
	now = new(time.Date(2026, 11, 21, 14, 0, 0, 0, time.UTC))
	clock := func() time.Time { return *now }
	book = peer.NewBook(peer.Options{Own: "db1", Now: clock})
	fix := change.Spec{ID: "postgres.setting", Args: map[string]string{"fsync": "on"}}
	for _, d := range []peer.Document{
		{Kind: peer.Targets, Targets: []agent.Target{{Kind: metric.Postgres, Name: "5432", Found: "socket"}}},
		{Kind: peer.Gaps, Gaps: []metric.Gap{{Collector: "postgres.statements", Server: "5432", Metrics: []string{"postgres_statement_calls_total"}, Because: "no pg_stat_statements", Hint: "CREATE EXTENSION " + hostile}}},
		{Kind: peer.Findings, Inspections: []peer.Inspection{{Host: "db2", Server: "5432", Outcome: check.Outcome{Findings: []check.Finding{
			{Check: "postgres.fsync", Subject: "server", Severity: check.Danger, Summary: "fsync is off " + hostile, Fixes: []change.Spec{fix}}}}}}},
		{Kind: peer.Sessions, Server: "5432", Sessions: []postgres.Session{{PID: 4711, State: "active", WaitType: "Timeout", Wait: "PgSleep", Query: hostile}}},
	} {
		d.Host, d.At, d.Program = "db2", *now, "1.0"
		body, err := peer.Encode(d)
		if err != nil {
			t.Fatal(err)
		}
		got, err := peer.Decode(body)
		if err != nil {
			t.Fatal(err)
		}
		if err := book.Put(got, body); err != nil {
			t.Fatal(err)
		}
	}
	book.Heard("web1")
	return New(Options{AllowChanges: true, Parts: api.Parts{Host: "db1", Hosts: book, Now: clock,
		Store:    func() (api.Store, error) { return nil, errors.New("away") },
		Findings: func() []peer.Inspection { return []peer.Inspection{{Host: "db1"}} },
		Gaps:     func() []metric.Gap { return nil },
		Sessions: func(context.Context, string) ([]postgres.Session, error) { return nil, errors.New("not that one") },
	}}), book, now
}

func TestPagesOfAnotherHost(t *testing.T) {
	h, book, now := others(t)
	shows := func(path, part string, wants ...string) {
		t.Helper()
		status, text := fetch(t, h, path, part)
		for _, want := range wants {
			not := strings.HasPrefix(want, "!")
			if status != http.StatusOK || strings.Contains(text, strings.TrimPrefix(want, "!")) == not {
				t.Errorf("%s %s: %d; want %q in\n%s", path, part, status, want, text)
			}
		}
		if m := tag.FindString(strings.ReplaceAll(text, `<script src="/static/`, "")); m != "" {
			t.Errorf("%s %s: markup came through: %s", path, part, m)
		}
	}
	shows("/postgres?host=db2", "", `<span class="dim">5432</span>`, "no pg_stat_statements", "CREATE EXTENSION")
	shows("/postgres?host=db2&server=5432", "sessions", "4711", "Timeout: PgSleep", "this: ")
	shows("/postgres?host=db2&server=5433", "sessions", "db2 was asked")
	shows("/findings?host=db2", "", "fsync is off", "headroom plan postgres.setting fsync=on", "run it on db2", "told 2026-11-21 14:00:00 UTC", "!data-plan=", "!data-allow")
	shows("/?host=db2", "health", "In danger: 1 danger", "!silent")
	shows("/?host=db2", "worst", "fsync is off")
	shows("/", "", "1 danger", "not told")
	shows("/", "health", "!1 danger", "!silent")
	if l := book.Wanted("db2"); l == nil || len(l.Sessions) != 2 {
		t.Errorf("looking at the sessions is told as %+v", l)
	}

	shows("/findings?host=web1", "", "sends figures and has not told its findings", "headroom check", "!No findings")
	shows("/queue?host=web1", "", "Not known: host", "has not told its gaps")
	shows("/?host=web1", "health", "Cannot be told", "has not told its findings", "!Healthy")
	shows("/postgres?host=web1&server=x", "sessions", "sends figures and nothing else")

	*now = now.Add(10 * time.Minute)
	shows("/?host=db2", "health", "In danger: 1 danger", "silent since 2026-11-21 14:00:00 UTC (10 min ago)", "may not be so any more")
	shows("/findings?host=db2", "", `id="silent"`, "db2 is silent since 2026-11-21 14:00:00 UTC", "fsync is off")
	shows("/postgres?host=db2&server=5432", "sessions", "is silent since", "!4711")
	shows("/", "health", "2 hosts are silent: db2 since 2026-11-21 14:00:00 UTC (10 min ago), web1 since", "!Healthy")
	shows("/", "", `<span class="tag danger">silent</span>`, "headroom up host forget web1")
	if err := book.Forget("web1", time.Time{}); err != nil {
		t.Fatal(err)
	}
	*now = now.Add(time.Minute) // what a page knows is kept for some seconds
	shows("/", "health", "1 host is silent: db2 since", "!web1")
	shows("/", "", "!web1")
}
