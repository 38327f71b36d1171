package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"regexp"
	"slices"
	"sort"
	"strings"
	"time"

	"headroom/change"
	"headroom/fail"
	"headroom/store"
	"headroom/trial"
)

// changeJSON is one change of the journal in a list.
type changeJSON struct {
	ID        string     `json:"id"`
	State     string     `json:"state"`
	At        time.Time  `json:"at"`
	Title     string     `json:"title"`
	ConfirmBy *time.Time `json:"confirm_by,omitempty"`
	Damage    []string   `json:"damage,omitempty"`
}

func changeOf(e change.Entry) changeJSON {
	j := changeJSON{ID: e.ID, State: string(e.Phase), At: e.At.UTC(), Damage: e.Damage, Title: "(cannot be read)"}
	if e.Plan != nil {
		j.Title = e.Plan.Title()
	}
	if !e.ConfirmBy.IsZero() {
		by := e.ConfirmBy.UTC()
		j.ConfirmBy = &by
	}
	return j
}

func (a *API) journal(w http.ResponseWriter, _ *http.Request) error {
	if a.Parts.Journal == nil {
		return absent("the journal")
	}
	entries, err := a.Parts.Journal.List()
	if err != nil {
		return err
	}
	list := []changeJSON{}
	for _, e := range entries {
		list = append(list, changeOf(e))
	}
	writeJSON(w, http.StatusOK, map[string]any{"changes": list})
	return nil
}

func (a *API) journalEntry(w http.ResponseWriter, r *http.Request) error {
	if a.Parts.Journal == nil {
		return absent("the journal")
	}
	e, err := a.entry(r.PathValue("id"))
	if err != nil {
		return err
	}
	records := slices.Clone(e.Records)
	for i := range records {
		records[i].Plan = nil // it stands beside
	}
	out := struct {
		changeJSON
		Plan    *change.Plan    `json:"plan"`
		Records []change.Record `json:"records"`
		Port    uint16          `json:"confirm_port,omitempty"` // that a new connection must be seen to before it is confirmed
		Seen    string          `json:"seen,omitempty"`         // whose was
	}{changeJSON: changeOf(e), Plan: e.Plan, Records: records}
	if e.Phase == change.Awaiting {
		out.Port = e.Port
		if out.Seen, err = a.Parts.Journal.Newcomer(e); err != nil {
			return err
		}
	}
	writeJSON(w, http.StatusOK, out)
	return nil
}

// entry finds a change by the id of a request.
func (a *API) entry(id string) (change.Entry, error) {
	entries, err := a.Parts.Journal.List()
	if err != nil {
		return change.Entry{}, err
	}
	for _, e := range entries {
		if e.ID == id {
			return e, nil
		}
	}
	return change.Entry{}, refuse(http.StatusNotFound, "GET /api/v1/journal lists them", "no change %.60q", id)
}

// trialJSON is a trial's result in a list.
type trialJSON struct {
	Name     string    `json:"name"` // of its file, without .json
	Kind     string    `json:"kind"` // headroom-trial, headroom-lab
	Title    string    `json:"title"`
	Workload string    `json:"workload,omitempty"`
	Started  time.Time `json:"started,omitzero"`
	Seconds  float64   `json:"seconds,omitempty"`
	Problem  string    `json:"problem,omitempty"` // why it cannot be read
}

// Bounds of the folder of results.
const (
	maxTrials    = 1000
	maxTrialSize = 32 << 20
)

var trialName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,120}$`)

func (a *API) trials(w http.ResponseWriter, _ *http.Request) error {
	if a.Parts.Trials == "" {
		return absent("trial results")
	}
	names, err := a.TrialNames()
	if err != nil {
		return err
	}
	list := []trialJSON{}
	for _, name := range names {
		t := trialJSON{Name: name}
		if text, err := a.ReadTrial(name); err != nil {
			t.Problem = err.Error()
		} else {
			t.describe(text)
		}
		list = append(list, t)
	}
	sort.SliceStable(list, func(i, k int) bool { return list[i].Started.After(list[k].Started) })
	writeJSON(w, http.StatusOK, map[string]any{"trials": list})
	return nil
}

func (t *trialJSON) describe(text []byte) {
	var head struct {
		Format, Name, Question, Workload string
		Started                          time.Time
		Took                             float64 `json:"took_seconds"`
	}
	if err := json.Unmarshal(text, &head); err != nil {
		t.Problem = err.Error()
		return
	}
	t.Kind, t.Title, t.Workload, t.Started, t.Seconds = head.Format, head.Name, head.Workload, head.Started, head.Took
	if head.Question != "" {
		t.Title = head.Question
	}
	if head.Format == "headroom-trial" {
		if _, err := trial.Load(bytes.NewReader(text)); err != nil {
			t.Problem = err.Error()
		}
	}
}

// TrialNames lists the results of trials and labs, at most 1,000.
func (p *Parts) TrialNames() (names []string, err error) {
	files, err := os.ReadDir(p.Trials)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list trial results: %w", err)
	}
	for _, f := range files {
		name, ok := strings.CutSuffix(f.Name(), ".json")
		if ok && trialName.MatchString(name) && f.Type().IsRegular() && len(names) < maxTrials {
			names = append(names, name)
		}
	}
	return names, nil
}

// ReadTrial reads one result; no name leads out of the folder, through a link
// neither. fail.ErrAbsent if it is not there.
func (p *Parts) ReadTrial(name string) ([]byte, error) {
	if !trialName.MatchString(name) {
		return nil, notThere(fs.ErrNotExist, name)
	}
	root, err := os.OpenRoot(p.Trials)
	if err != nil {
		return nil, notThere(err, name)
	}
	defer root.Close()
	f, err := root.Open(name + ".json")
	if err != nil {
		return nil, notThere(err, name)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxTrialSize+1))
	if err != nil {
		return nil, fmt.Errorf("read trial result %s: %w", name, err)
	}
	if len(text) > maxTrialSize {
		return nil, fmt.Errorf("read trial result %s: over %d bytes", name, maxTrialSize)
	}
	return text, nil
}

func notThere(err error, name string) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fail.Hint(fmt.Errorf("no trial result %.60q: %w", name, fail.ErrAbsent), "GET /api/v1/trials lists them")
	}
	return fmt.Errorf("read trial result %s: %w", name, err)
}

func (a *API) trial(w http.ResponseWriter, r *http.Request) error {
	if a.Parts.Trials == "" {
		return absent("trial results")
	}
	text, err := a.ReadTrial(r.PathValue("name"))
	if err != nil {
		return err
	}
	if !json.Valid(text) {
		return fmt.Errorf("read trial result %s: not JSON", r.PathValue("name"))
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(text) // that the client has gone is nobody's fault
	return nil
}

func (a *API) marks(w http.ResponseWriter, r *http.Request) error {
	from, to, err := a.span(r.URL.Query())
	if err != nil {
		return err
	}
	st, err := a.openStore()
	if err != nil {
		return err
	}
	list, err := st.Marks(r.Context(), from, to)
	if err != nil {
		return err
	}
	if list == nil {
		list = []store.Mark{}
	}
	for i := range list {
		list[i].At = list[i].At.UTC()
	}
	writeJSON(w, http.StatusOK, map[string]any{"marks": list})
	return nil
}
