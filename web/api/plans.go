package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"time"

	"headroom/change"
	"headroom/fact"
	"headroom/fail"
	"headroom/host"
	"headroom/report"
	"headroom/topic/all"
)

// Changes is what plans and changes need. A plan changes nothing and is always
// given; the rest only if Allow is set.
type Changes struct {
	Allow bool
	// Open opens the machine and the PostgreSQL server that the request names
	// by its label ("" for the usual one) or, where plan is given, the server
	// that the plan was made for.
	Open    func(server string, plan *change.Plan) (*host.Local, error)
	Facts   fact.Options
	Folder  string // of saved plans, the one that the command line uses
	Options func() change.Options
}

// plans makes one plan at a time, and lets changes go on when the request that
// began them has ended.
type plans struct {
	mu      sync.Mutex
	running sync.WaitGroup
}

// Bounds of plans.
const (
	maxPlans   = 5_000 // files kept
	planLimit  = time.Minute
	applyLimit = 30 * time.Minute
)

func (a *API) changesAllowed() bool { return a.Changes != nil && a.Changes.Allow }

// planJSON is a plan for people and programs.
type planJSON struct {
	ID       string         `json:"id"` // apply and the command line take it
	Title    string         `json:"title"`
	Nothing  bool           `json:"nothing"` // all is as wanted already
	Restarts bool           `json:"restarts"`
	Server   *change.Server `json:"server,omitempty"`
	Made     time.Time      `json:"made"`
	Changes  []plannedJSON  `json:"changes"`
	Apply    string         `json:"apply"`           // the command that does it
	Allowed  bool           `json:"changes_allowed"` // by this server
}

type plannedJSON struct {
	Change  string      `json:"change"`
	Subject string      `json:"subject"`
	Why     string      `json:"why"`
	Risk    change.Risk `json:"risk"`
	RiskWhy string      `json:"risk_why"`
	Restart bool        `json:"restart"`
	Confirm float64     `json:"confirm_within_seconds,omitempty"` // recommended
	CutsOff bool        `json:"cuts_off,omitempty"`               // always taken back unless confirmed
	Steps   []stepJSON  `json:"steps"`
	Notes   []string    `json:"notes,omitempty"`
}

type stepJSON struct {
	Object  string       `json:"object"`
	Nothing bool         `json:"nothing"`
	Effects []string     `json:"effects,omitempty"`
	Rows    []change.Row `json:"rows"`
	Diff    []string     `json:"diff,omitempty"` // of files and rules, in the place of rows
}

func (a *API) planOf(p *change.Plan) planJSON {
	j := planJSON{ID: p.Hash[:8], Title: p.Title(), Nothing: p.Nothing(), Restarts: p.Restarts(), Server: p.Server,
		Made: p.Made.UTC(), Apply: "headroom apply " + p.Hash[:8], Allowed: a.changesAllowed()}
	if j.Restarts {
		j.Apply += " --accept restart"
	}
	for _, c := range p.Changes {
		pl := plannedJSON{Change: c.Change.Spec.String(), Subject: c.Change.Subject, Why: c.Change.Why, Risk: c.Change.Risk,
			RiskWhy: c.Change.RiskWhy, Restart: c.Change.Restart, Confirm: c.Change.Confirm.Seconds(), CutsOff: c.Change.CutsOff, Notes: c.Notes}
		for _, s := range c.Steps {
			pl.Steps = append(pl.Steps, stepJSON{s.Step.Object(), s.Nothing(), s.Step.Effects(), s.Rows(), report.StepDiff(s)})
		}
		j.Changes = append(j.Changes, pl)
	}
	return j
}

// plan works out what a change would do, and saves the plan.
func (a *API) plan(w http.ResponseWriter, r *http.Request) error {
	if a.Changes == nil {
		return absent("plans")
	}
	var ask struct {
		Change  string   `json:"change"`
		Changes []string `json:"changes"`
		Server  string   `json:"server"`
	}
	if err := readJSON(r, &ask); err != nil {
		return err
	}
	if ask.Change != "" {
		ask.Changes = append(ask.Changes, ask.Change)
	}
	if len(ask.Changes) == 0 || len(ask.Changes) > 20 {
		return refuse(http.StatusBadRequest, `e.g. {"change": "postgres.setting max_wal_size=10GB"}`, "want one to twenty changes, there are %d", len(ask.Changes))
	}
	var specs []change.Spec
	for _, text := range ask.Changes {
		s, err := change.ParseSpec(text)
		if err != nil {
			return err
		}
		specs = append(specs, s)
	}
	p, err := a.prepare(r.Context(), ask.Server, specs)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusCreated, a.planOf(p))
	return nil
}

func (a *API) prepare(ctx context.Context, server string, specs []change.Spec) (*change.Plan, error) {
	ctx, stop := context.WithTimeout(ctx, planLimit)
	defer stop()
	a.plans.mu.Lock()
	defer a.plans.mu.Unlock()
	h, err := a.Changes.Open(server, nil)
	if err != nil {
		return nil, err
	}
	defer h.Close()
	p, err := all.Prepare(ctx, h, a.Changes.Facts, specs)
	if err != nil {
		return nil, err
	}
	return p, a.savePlan(p)
}

func (a *API) savePlan(p *change.Plan) error {
	if err := os.MkdirAll(a.Changes.Folder, 0o700); err != nil {
		return fmt.Errorf("make folder for plans: %w", err)
	}
	files, err := os.ReadDir(a.Changes.Folder)
	if err != nil {
		return fmt.Errorf("save plan: %w", err)
	}
	if len(files) >= maxPlans {
		return fail.Hint(fmt.Errorf("save plan: there are %d already", len(files)), "remove old ones from %s; the journal does not need them", a.Changes.Folder)
	}
	var b bytes.Buffer
	if err := p.Save(&b); err != nil {
		return err
	}
	return host.WriteDurable(filepath.Join(a.Changes.Folder, p.Hash[:8]+".json"), b.Bytes(), 0o600)
}

var planID = regexp.MustCompile(`^[0-9a-f]{8}$`)

func (a *API) loadPlan(id string) (*change.Plan, error) {
	if a.Changes == nil {
		return nil, absent("plans")
	}
	if !planID.MatchString(id) {
		return nil, refuse(http.StatusNotFound, "POST /api/v1/plans makes one", "no plan %.60q", id)
	}
	text, err := os.ReadFile(filepath.Join(a.Changes.Folder, id+".json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, refuse(http.StatusNotFound, "POST /api/v1/plans makes one", "no plan %s", id)
	}
	if err != nil {
		return nil, fmt.Errorf("read plan %s: %w", id, err)
	}
	return change.LoadPlan(bytes.NewReader(text))
}

func (a *API) planShow(w http.ResponseWriter, r *http.Request) error {
	p, err := a.loadPlan(r.PathValue("id"))
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, a.planOf(p))
	return nil
}

// consent is the body of everything that changes the machine.
type consent struct {
	Confirm string   `json:"confirm"` // the id, typed
	Accept  []string `json:"accept"`  // risks taken by name
	Within  float64  `json:"confirm_within_seconds"`
	Unseen  bool     `json:"confirm_unseen"` // keep it although nobody was seen to come in anew
}

// consented reads the body and holds the typed id against the one asked for.
func (a *API) consented(r *http.Request, id string) (consent, error) {
	var c consent
	if !a.changesAllowed() {
		return c, refuse(http.StatusForbidden, "start it with: headroom up --allow-changes; or run the change on the command line: headroom apply "+id, "this server does not change the machine")
	}
	r.Body = http.MaxBytesReader(nil, r.Body, bodyLimit)
	if err := readJSON(r, &c); err != nil {
		return c, err
	}
	if c.Confirm != id {
		return c, refuse(http.StatusBadRequest, `send {"confirm": "`+id+`"}`, "the id typed to confirm is not the one asked for")
	}
	if !(c.Within >= 0 && c.Within <= 86_400) {
		return c, refuse(http.StatusBadRequest, "", "confirm_within_seconds %g: want 0 to 86400", c.Within)
	}
	known := map[string]bool{change.AcceptRestart: true, change.AcceptForeign: true, change.AcceptLost: true}
	for _, risk := range c.Accept {
		if !known[risk] {
			return c, refuse(http.StatusBadRequest, "there are: restart, foreign-edit, lost", "no risk %.40q", risk)
		}
	}
	return c, nil
}

func (a *API) applyPlan(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("id")
	if !planID.MatchString(id) {
		return refuse(http.StatusNotFound, "POST /api/v1/plans makes one", "no plan %.60q", id)
	}
	c, err := a.consented(r, id)
	if err != nil {
		return err
	}
	p, err := a.loadPlan(id)
	if err != nil {
		return err
	}
	return a.alter(w, r, p, c, func(ctx context.Context, h *host.Local, o change.Options) (change.Result, error) {
		return change.Apply(ctx, h, p, o)
	})
}

func (a *API) confirmChange(w http.ResponseWriter, r *http.Request) error {
	e, c, err := a.consentedEntry(r)
	if err != nil {
		return err
	}
	return a.alter(w, r, e.Plan, c, func(ctx context.Context, h *host.Local, o change.Options) (change.Result, error) {
		return change.Confirm(ctx, h, e.ID, o)
	})
}

func (a *API) revertChange(w http.ResponseWriter, r *http.Request) error {
	e, c, err := a.consentedEntry(r)
	if err != nil {
		return err
	}
	return a.alter(w, r, e.Plan, c, func(ctx context.Context, h *host.Local, o change.Options) (change.Result, error) {
		return change.Revert(ctx, h, e.ID, o)
	})
}

func (a *API) consentedEntry(r *http.Request) (change.Entry, consent, error) {
	if a.Parts.Journal == nil {
		return change.Entry{}, consent{}, absent("the journal")
	}
	c, err := a.consented(r, r.PathValue("id"))
	if err != nil {
		return change.Entry{}, c, err
	}
	e, err := a.entry(r.PathValue("id"))
	return e, c, err
}

// alter runs one change to its end, whether the client waits for it or not:
// a page that is closed must not leave a machine half done.
func (a *API) alter(w http.ResponseWriter, r *http.Request, p *change.Plan, c consent, do func(context.Context, *host.Local, change.Options) (change.Result, error)) error {
	a.plans.running.Add(1)
	defer a.plans.running.Done()
	ctx, stop := context.WithTimeout(context.WithoutCancel(r.Context()), applyLimit)
	defer stop()
	defer context.AfterFunc(a.life, stop)()
	h, err := a.Changes.Open("", p)
	if err != nil {
		return err
	}
	defer h.Close()
	o := a.Changes.Options()
	o.Accept, o.ConfirmUnseen, o.ConfirmWithin = c.Accept, c.Unseen, time.Duration(c.Within*float64(time.Second))
	found, err := change.Recover(ctx, h, o)
	notes := []string{}
	for _, f := range found {
		notes = append(notes, "found: "+f.Text)
	}
	if err != nil {
		return err
	}
	res, err := do(ctx, h, o)
	notes = append(notes, res.Notes...)
	if err != nil {
		return alterError(err, notes)
	}
	out := map[string]any{"id": res.ID, "state": string(res.Phase), "notes": notes}
	if !res.ConfirmBy.IsZero() {
		out["confirm_by"], out["confirm_port"] = res.ConfirmBy.UTC(), res.Port
	}
	writeJSON(w, http.StatusOK, out)
	return nil
}

// alterError says what became of the machine, which matters more than why.
func alterError(err error, notes []string) error {
	for _, n := range notes {
		err = fmt.Errorf("%w; %s", err, n)
	}
	var mv *change.Moved
	switch {
	case errors.As(err, &mv):
		for _, row := range mv.Rows {
			if mv.Edit(row) != nil {
				continue // the error has its lines
			}
			err = fmt.Errorf("%w; %s: %s %q, %s %q, %s %q", err, row.Name,
				mv.Titles[0], row.Values[0], mv.Titles[1], row.Values[1], mv.Titles[2], row.Values[2])
		}
	case fail.Code(err) == fail.Reverted:
		return &fault{error: fmt.Errorf("failed and taken back: %w", err), status: http.StatusUnprocessableEntity}
	case fail.Code(err) == fail.NotReverted:
		return &fault{error: fmt.Errorf("failed and NOT taken back: %w", err), status: http.StatusInternalServerError}
	}
	return err
}
