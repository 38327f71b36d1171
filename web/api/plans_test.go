package api

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"headroom/change"
	"headroom/fact"
	"headroom/host"
	"headroom/pglocal"
	"headroom/testkit/need"
)

// changing is a stand that plans for a private server of its own.
func changing(t *testing.T, allow bool) (*stand, *pglocal.Server) {
	t.Helper()
	need.Have(t, "pg")
	srv, err := pglocal.Start(t.Context(), pglocal.Options{NoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := srv.Stop(); err != nil {
			t.Error(err)
		}
	})
	dir := t.TempDir()
	dirs := host.Dirs{Config: dir, State: filepath.Join(dir, "state"), Run: filepath.Join(dir, "run"), Cache: filepath.Join(dir, "cache")}
	journal := change.OpenJournal(dirs)
	return serve(t, func(p *Parts) {
		p.Journal = journal
		p.Changes = &Changes{
			Allow: allow,
			Open: func(string, *change.Plan) (*host.Local, error) {
				return host.Open(host.Options{DSN: srv.DSN(), WithPG: true}), nil
			},
			Facts: fact.Options{Host: "here"}, Folder: filepath.Join(dirs.State, "plans"),
			Options: func() change.Options { return change.Options{Journal: journal} },
		}
	}), srv
}

func (s *stand) post(t *testing.T, path, body string, into any) int {
	t.Helper()
	status, text, _ := s.do(t, "POST", path, []byte(body), "Content-Type", "application/json")
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatalf("%s: %d %v in %.300s", path, status, err, text)
	}
	return status
}

func setting(t *testing.T, srv *pglocal.Server, name string) (value string) {
	t.Helper()
	c, err := pgx.Connect(context.Background(), srv.DSN())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(context.Background()) }() // nothing is lost with it
	if err := c.QueryRow(context.Background(), "select current_setting($1)", name).Scan(&value); err != nil {
		t.Fatal(err)
	}
	return value
}

type said struct {
	Error, Hint, ID, State, Title, Apply string
	Nothing, Restarts                    bool
	Changes                              []plannedJSON
}

func TestPlanApplyRevert(t *testing.T) {
	s, srv := changing(t, true)
	before := setting(t, srv, "checkpoint_timeout")
	var p said
	if status := s.post(t, "/api/v1/plans", `{"change":"postgres.setting checkpoint_timeout=11min"}`, &p); status != 201 || len(p.Changes) != 1 {
		t.Fatal(status, p)
	}
	if rows := p.Changes[0].Steps[0].Rows; len(rows) == 0 || !strings.Contains(rows[0].After, "11min") && !strings.Contains(rows[0].After, "660") {
		t.Errorf("%+v", rows)
	}
	if now := setting(t, srv, "checkpoint_timeout"); now != before {
		t.Fatalf("a plan changed it to %s", now)
	}
	apply := "/api/v1/plans/" + p.ID + "/apply"
	for body, want := range map[string]string{
		`{}`: "the id typed", `{"confirm":"00000000"}`: "the id typed", `{"confirm":"` + p.ID + `","accept":["all"]}`: "no risk",
		`{"confirm":"` + p.ID + `","confirm_within_seconds":-1}`: "want 0 to", `{"confirm":"` + p.ID + `","force":true}`: "unknown field", `nonsense`: "read body",
	} {
		var e said
		if status := s.post(t, apply, body, &e); status != 400 || !strings.Contains(e.Error, want) {
			t.Errorf("%s: %d %+v", body, status, e)
		}
	}
	if now := setting(t, srv, "checkpoint_timeout"); now != before {
		t.Fatalf("without consent it is %s", now)
	}
	var done said
	if status := s.post(t, apply, `{"confirm":"`+p.ID+`"}`, &done); status != 200 || done.State != "applied" {
		t.Fatal(status, done)
	}
	if now := setting(t, srv, "checkpoint_timeout"); now != "11min" {
		t.Errorf("applied, and it is %s", now)
	}
	var again said
	if status := s.post(t, apply, `{"confirm":"`+p.ID+`"}`, &again); status != http.StatusConflict {
		t.Errorf("the machine moved since the plan: %d %+v", status, again)
	}
	var list struct{ Changes []changeJSON }
	if s.get(t, "/api/v1/journal", &list); len(list.Changes) != 1 || list.Changes[0].ID != done.ID {
		t.Errorf("%+v", list)
	}
	var one struct {
		ID      string
		Records []change.Record
	}
	if s.get(t, "/api/v1/journal/"+done.ID, &one); one.ID != done.ID || len(one.Records) < 3 {
		t.Errorf("%+v", one)
	}
	var back said
	if status := s.post(t, "/api/v1/changes/"+done.ID+"/revert", `{"confirm":"`+done.ID+`"}`, &back); status != 200 || back.State != "reverted" {
		t.Errorf("%d %+v", status, back)
	}
	if now := setting(t, srv, "checkpoint_timeout"); now != before {
		t.Errorf("reverted, and it is %s, not %s", now, before)
	}
}

// Rules are shown by what differs, and what it takes to keep them.
func TestPlanOfRules(t *testing.T) {
	step := change.Rules{Tool: "nft", Tables: []string{"ip a"}}
	p := &change.Plan{Hash: "0123456789", Changes: []change.Planned{{
		Change: change.Change{Spec: change.Spec{ID: "test.rules"}, CutsOff: true, Confirm: 2 * time.Minute}, Notes: []string{"not saved"},
		Steps: []change.PlannedStep{{Step: step, Before: change.State{Present: true, Stored: map[string]string{"ip a": "x\ny\n"}},
			After: change.State{Present: true, Stored: map[string]string{"ip a": "x\nz\n"}}}}}}}
	c := new(API).planOf(p).Changes[0]
	if got := strings.Join(c.Steps[0].Diff, "|"); !c.CutsOff || c.Confirm != 120 || len(c.Notes) != 1 || !strings.HasSuffix(got, "| x|-y|+z") {
		t.Errorf("%q of %+v", got, c)
	}
}

// Without --allow-changes a plan is shown and nothing is done, whoever asks.
func TestChangesAreOff(t *testing.T) {
	s, srv := changing(t, false)
	before := setting(t, srv, "work_mem")
	var p, e said
	if status := s.post(t, "/api/v1/plans", `{"change":"postgres.setting work_mem=17MB"}`, &p); status != 201 {
		t.Fatal(status, p)
	}
	for _, path := range []string{"/api/v1/plans/" + p.ID + "/apply", "/api/v1/changes/20261121-7f3a/revert", "/api/v1/changes/20261121-7f3a/confirm"} {
		if status := s.post(t, path, `{"confirm":"`+p.ID+`"}`, &e); status != 403 || !strings.Contains(e.Hint, "--allow-changes") {
			t.Errorf("%s: %d %+v", path, status, e)
		}
	}
	if now := setting(t, srv, "work_mem"); now != before {
		t.Errorf("it is %s", now)
	}
	if status := s.get(t, "/api/v1/plans/"+p.ID, &e); status != 200 || e.ID != p.ID {
		t.Errorf("the plan is not kept for the command line: %d %+v", status, e)
	}
	if _, err := os.Stat(filepath.Join(s.Changes.Folder, p.ID+".json")); err != nil {
		t.Error(err)
	}
}

func TestWrongPlans(t *testing.T) {
	s, _ := changing(t, true)
	for body, want := range map[string]int{
		`{}`: 400, `{"change":"nonsense"}`: 400, `{"change":"postgres.nothing a=b"}`: 400, `{"change":"postgres.setting no_such_setting=1"}`: 400,
		`{"change":"postgres.setting work_mem=banana"}`: 400, `{"change":"` + strings.Repeat("x", 70<<10) + `"}`: 413, `[]`: 400,
	} {
		var e said
		if status := s.post(t, "/api/v1/plans", body, &e); status != want || e.Error == "" {
			t.Errorf("%.80s: %d %+v", body, status, e)
		}
	}
	for _, id := range []string{"00000000", "..%2f..%2fetc%2fpasswd", "zzzzzzzz"} {
		if status, text, _ := s.do(t, "GET", "/api/v1/plans/"+id, nil); status != 404 {
			t.Errorf("%s: %d %s", id, status, text)
		}
	}
}
