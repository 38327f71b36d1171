package page

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"headroom/change"
	"headroom/report"
)

// journalData is the list of changes.
type journalData struct{ *view }

func (p *pages) journal(v *view) (string, bool, any) { return "journal", false, journalData{v} }

// Changes lists them, the newest first, or says why it cannot.
func (d journalData) Changes() list[changeRow] {
	all, err := d.p.changes()
	if err != nil {
		return list[changeRow]{Why: err.Error()}
	}
	slices.Reverse(all)
	var out []changeRow
	for _, e := range all {
		if !e.Hold {
			out = append(out, changeRow{e})
		}
	}
	return list[changeRow]{List: out}
}

// changeRow is one change.
type changeRow struct{ change.Entry }

// Title is what was changed.
func (c changeRow) Title() string {
	if c.Plan == nil {
		return "(cannot be read)"
	}
	return c.Plan.Title()
}

// Tone is the colour of its state.
func (c changeRow) Tone() string {
	switch c.Phase {
	case change.Applied, change.Reverted:
		return "good"
	case change.Failed, change.Unreadable:
		return "danger"
	case change.Awaiting, change.Applying, change.Reverting:
		return "warning"
	}
	return "note"
}

// Undo says whether it can be taken back.
func (c changeRow) Undo() bool {
	return slices.Contains([]change.Phase{change.Awaiting, change.Applied, change.Applying, change.Reverting, change.Failed}, c.Phase)
}

// Waits says whether it waits to be confirmed.
func (c changeRow) Waits() bool { return c.Phase == change.Awaiting }

func (p *pages) changes() ([]change.Entry, error) {
	if p.Parts.Journal == nil {
		return nil, errors.New("there is no journal in this program")
	}
	return p.Parts.Journal.List()
}

// entryData is one change.
type entryData struct {
	changeRow
	Text string
	// Seen is whose new connection from outside was seen since it was applied,
	// if it waits for one; Unsure is why that cannot be told.
	Seen, Unsure string
}

// Wants says whether it waits for a new connection from outside.
func (d entryData) Wants() bool { return d.Waits() && d.Port != 0 }

func (p *pages) journalEntry(w http.ResponseWriter, r *http.Request) {
	v, err := p.view(r)
	if err != nil {
		p.fault(w, r, http.StatusBadRequest, err.Error())
		return
	}
	all, err := p.changes()
	if err != nil {
		p.fault(w, r, http.StatusInternalServerError, err.Error())
		return
	}
	i := slices.IndexFunc(all, func(e change.Entry) bool { return e.ID == r.PathValue("id") })
	if i < 0 {
		p.fault(w, r, http.StatusNotFound, fmt.Sprintf("There is no change %.60q.", r.PathValue("id")))
		return
	}
	text, err := plain(report.Entry(all[i]))
	if err != nil {
		p.fault(w, r, http.StatusInternalServerError, err.Error())
		return
	}
	d := entryData{changeRow: changeRow{all[i]}, Text: text}
	if d.Wants() {
		if d.Seen, err = p.Parts.Journal.Newcomer(all[i]); err != nil {
			d.Unsure = err.Error()
		}
	}
	p.show(w, r, http.StatusOK, frame{Title: "Change " + all[i].ID, view: v, Data: d}, "entry")
}

// plain is a report as a terminal shows it.
func plain(s report.Section) (string, error) {
	var b bytes.Buffer
	err := report.Render(&b, report.Text, report.Terminal{UTF8: true, Width: 110}, "", s)
	return b.String(), err
}
