package report

import (
	"fmt"
	"strings"
	"time"

	"headroom/engine/bulkload"
	"headroom/unit"
)

type loadPlanJSON struct {
	head
	Seconds float64        `json:"seconds"` // the estimate for the whole
	Plan    *bulkload.Plan `json:"plan"`
}

// LoadPlan shows what a bulk load will do, and how long it is thought to take.
func LoadPlan(p *bulkload.Plan) Section {
	sec := Section{title: "Load", data: loadPlanJSON{head{Format: "headroom-load-plan", Schema: schema}, p.Seconds(), p},
		sheet: sheet{columns: []string{"kind", "name", "decision", "why", "keep_seconds", "build_seconds"}}}
	input := fmt.Sprintf("%s: %s, %s", p.Input.Path, p.Input.Format, p.Input.Compression)
	if p.Input.Header {
		input += ", with a header"
	}
	if p.Input.Known {
		input += fmt.Sprintf(", about %s rows, %s", unit.Format(float64(p.Input.Rows), unit.Count), unit.Bytes(p.Input.Bytes))
	}
	it := item{Title: "load into " + p.Table.String(), Fields: []field{
		{Label: "input", Text: input},
		{Label: "columns", Text: strings.Join(p.Columns, ", ")},
		{Label: "there now", Text: fmt.Sprintf("about %s rows, %s", unit.Format(float64(p.Table.Rows), unit.Count), unit.Bytes(p.Table.Bytes))},
		{Label: "way", Text: wayWords(p)},
	}}
	for _, sql := range p.Create {
		it.Fields = append(it.Fields, field{Label: "first", Text: sql, Code: true})
	}
	if p.After != "" {
		it.Fields = append(it.Fields, field{Label: "afterwards", Text: p.After + ": " + p.AfterWhy})
	} else {
		it.Fields = append(it.Fields, field{Label: "afterwards", Text: "nothing: " + p.AfterWhy})
	}
	sec.blocks = append(sec.blocks, it)
	g := grid{Title: "Indexes, keys, triggers", Columns: []column{{Name: "object"}, {Name: "decision"}, {Name: "why"}}}
	for _, d := range p.Decisions {
		word := "keep"
		if d.Drop {
			word = "drop, build again"
			if d.Object.Kind == bulkload.Trigger {
				word = "disable, enable again"
			}
		}
		g.Rows = append(g.Rows, []string{d.Object.String(), word, d.Why})
		sec.sheet.rows = append(sec.sheet.rows, []string{string(d.Object.Kind), d.Object.Name, word, d.Why, fmt.Sprint(d.Keep), fmt.Sprint(d.Build)})
	}
	if len(g.Rows) > 0 {
		sec.blocks = append(sec.blocks, g)
	}
	sec.blocks = append(sec.blocks, phaseGrid(p.Phases, "about"))
	for _, n := range p.Notes {
		sec.blocks = append(sec.blocks, para{Tone: note, Text: "Note: " + n + "."})
	}
	sec.blocks = append(sec.blocks, para{Tone: strong, Text: fmt.Sprintf("Plan: about %s in all, by what such work took on the machine of the tests. Nothing was changed.", unit.Seconds(p.Seconds()))})
	return sec
}

func wayWords(p *bulkload.Plan) string {
	switch p.Way {
	case bulkload.Frozen:
		return "one COPY FREEZE in the transaction that makes the table new: without WAL (wal_level is minimal)"
	case bulkload.Whole:
		return "one transaction: all or nothing"
	}
	return fmt.Sprintf("chunks over %d connections, each committed with a note of itself", p.Connections)
}

func phaseGrid(phases []bulkload.Phase, heading string) grid {
	g := grid{Columns: []column{{Name: "phase"}, {Name: heading, Figures: true}, {Name: "how"}}}
	for _, ph := range phases {
		g.Rows = append(g.Rows, []string{ph.Name, unit.Seconds(ph.Seconds), ph.Note})
	}
	return g
}

type loadJSON struct {
	head
	*bulkload.Result
}

// Loaded shows what a bulk load did.
func Loaded(r *bulkload.Result) Section {
	sec := Section{title: "Loaded", data: loadJSON{head{Format: "headroom-load", Schema: schema}, r},
		sheet: sheet{columns: []string{"id", "table", "rows", "rejected", "bytes", "seconds", "rows_per_second", "way"},
			rows: [][]string{{r.ID, r.Table, fmt.Sprint(r.Rows), fmt.Sprint(r.Rejected), fmt.Sprint(r.Bytes), fmt.Sprint(r.Seconds), fmt.Sprint(r.Rate), string(r.Way)}}}}
	if len(r.Phases) > 0 {
		sec.blocks = append(sec.blocks, phaseGrid(r.Phases, "took"))
	}
	if len(r.Rebuilt) > 0 {
		g := grid{Columns: []column{{Name: "made again"}, {Name: "took", Figures: true}}}
		for _, o := range r.Rebuilt {
			took := ""
			if o.Seconds > 0 {
				took = unit.Seconds(o.Seconds)
			}
			g.Rows = append(g.Rows, []string{o.Object, took})
		}
		sec.blocks = append(sec.blocks, g)
	}
	for _, n := range r.Notes {
		sec.blocks = append(sec.blocks, para{Tone: warn, Text: n})
	}
	if r.Rejected > 0 {
		sec.blocks = append(sec.blocks, para{Tone: warn, Text: fmt.Sprintf("Rejected: %d records; line, column and reason of each are in %s", r.Rejected, r.Rejects)})
	}
	sec.blocks = append(sec.blocks, para{Tone: strong, Answer: true, Text: fmt.Sprintf("Loaded: %s rows into %s in %s, %s rows/s.",
		unit.Format(float64(r.Rows), unit.Count), r.Table, unit.Seconds(r.Seconds), unit.Format(r.Rate, unit.Count))})
	return sec
}

// Restored says that a load was taken back.
func Restored(r *bulkload.Result, kept bool) Section {
	sec := Loaded(r)
	text := "Taken back: " + r.Table + " is as it was before the load."
	if kept {
		text = fmt.Sprintf("Put back: indexes, keys and triggers of %s are as they were; %d rows of the load stay.", r.Table, r.Rows)
	}
	sec.title, sec.blocks = "Restored", []block{para{Tone: strong, Answer: true, Text: text}}
	return sec
}

type loadsJSON struct {
	head
	Loads []loadEntryJSON `json:"loads"`
}

type loadEntryJSON struct {
	ID    string         `json:"id"`
	Begun time.Time      `json:"begun"`
	State bulkload.State `json:"state"`
	Table string         `json:"table"`
	Input string         `json:"input"`
}

var loadWords = map[bulkload.State]string{
	bulkload.Planned: "planned; nothing was changed", bulkload.Loading: "open: rows are coming in, or it was interrupted",
	bulkload.Loaded: "open: rows are in, indexes are not all back", bulkload.Undoing: "open: being taken back, or interrupted in that",
	bulkload.Done: "done", bulkload.Undone: "taken back",
}

// Loads lists bulk loads.
func Loads(all []*bulkload.Journal) Section {
	data := loadsJSON{head{Format: "headroom-loads", Schema: schema}, []loadEntryJSON{}}
	sec := Section{title: "Loads", sheet: sheet{columns: []string{"id", "begun", "state", "table", "input"}}}
	g := grid{Columns: []column{{Name: "load"}, {Name: "begun (UTC)"}, {Name: "state"}, {Name: "table"}, {Name: "input"}}}
	for _, j := range all {
		e := loadEntryJSON{j.ID, j.Begun, j.State, j.Plan.Table.String(), j.Plan.Input.Path}
		data.Loads = append(data.Loads, e)
		g.Rows = append(g.Rows, []string{e.ID, shortMoment(e.Begun), loadWords[e.State], e.Table, e.Input})
		sec.sheet.rows = append(sec.sheet.rows, []string{e.ID, stamp(e.Begun), string(e.State), e.Table, e.Input})
	}
	sec.data = data
	if len(all) == 0 {
		sec.blocks = []block{para{Text: "Nothing was loaded into this database yet."}}
		return sec
	}
	sec.blocks = []block{g}
	return sec
}
