package report

import (
	"fmt"

	"headroom/engine/ingest"
	"headroom/engine/readtable"
	"headroom/unit"
)

type ingestJSON struct {
	head
	ingest.Summary
	Refresh *refreshJSON `json:"last_refresh,omitempty"`
}

type refreshJSON struct {
	Seconds float64 `json:"seconds"`
	Rows    int64   `json:"rows"`
	Changed int64   `json:"changed"` // -1: the server does not say
	Deleted int64   `json:"deleted"`
	Whole   bool    `json:"compared_all"`
}

func refreshData(d readtable.Done) *refreshJSON {
	return &refreshJSON{d.Took.Seconds(), d.Rows, d.Changed, d.Deleted, d.Whole}
}

// Ingested shows what an ingest run did, and how far the input is in for good.
func Ingested(s ingest.Summary) Section {
	data := ingestJSON{head: head{Format: "headroom-ingest", Schema: schema}, Summary: s}
	sec := Section{title: "Ingest", sheet: sheet{columns: []string{"table", "rows", "rejected", "seconds", "input", "offset", "line", "complete"}}}
	sec.sheet.rows = [][]string{{s.Table, fmt.Sprint(s.Rows), fmt.Sprint(s.Rejected), fmt.Sprint(s.Seconds), s.Input, fmt.Sprint(s.Acked.Offset), fmt.Sprint(s.Acked.Line), fmt.Sprint(s.Complete)}}
	rate := 0.0
	if s.Seconds > 0 {
		rate = float64(s.Rows) / s.Seconds
	}
	it := item{Title: "ingest into " + s.Table, Fields: []field{
		{Label: "rows", Text: fmt.Sprintf("%s in %s: %s", count(s.Rows), unit.Seconds(s.Seconds), unit.Format(rate, unit.PerSecond))},
		{Label: "sent", Text: fmt.Sprintf("%s rows (equal keys of a batch are one), mode %s, durability %s, strategy %s", count(s.Written), orElse(s.Mode, "replace"), orElse(s.Durable, "local"), s.Strategy)},
		{Label: "a batch", Text: fmt.Sprintf("half within %s, 99 %% within %s; %s tried again", unit.Seconds(s.P50), unit.Seconds(s.P99), count(s.Retries))},
	}}
	if s.WAL >= 0 {
		it.Fields = append(it.Fields, field{Label: "WAL", Text: unit.Bytes(s.WAL) + " by the whole server meanwhile"})
	}
	if s.Rejected > 0 {
		it.Fields = append(it.Fields, field{Label: "rejected", Text: count(s.Rejected) + " records"})
	}
	if s.Resumed != nil {
		it.Fields = append(it.Fields, field{Label: "resumed", Text: fmt.Sprintf("at byte %d, line %d of input %d", s.Resumed.Offset, s.Resumed.Line, s.Resumed.Input+1)})
	}
	it.Fields = append(it.Fields, field{Label: "acknowledged", Text: fmt.Sprintf("%s up to byte %d (line %d)", inputName(s.Input), s.Acked.Offset, s.Acked.Line)})
	if s.Read != "" && s.Refreshes > 0 {
		data.Refresh = refreshData(s.Last)
		it.Fields = append(it.Fields, field{Label: "read table", Text: fmt.Sprintf("%s, refreshed %d times; last: %s", s.Read, s.Refreshes, refreshWords(s.Last))})
	}
	sec.data = data
	sec.blocks = append(sec.blocks, it)
	end := para{Tone: good, Text: "Ingested: all of the input is in."}
	if !s.Complete {
		end = para{Tone: warn, Text: "Stopped: all before the acknowledged byte is in; what follows may be in part."}
	}
	sec.blocks = append(sec.blocks, end)
	return sec
}

func inputName(name string) string {
	if name == "-" {
		return "standard input"
	}
	return name
}

func refreshWords(d readtable.Done) string {
	text := fmt.Sprintf("%s rows in %s", count(d.Rows), unit.Seconds(d.Took.Seconds()))
	if d.Changed >= 0 {
		text += fmt.Sprintf(", %s changed, %s removed", count(d.Changed), count(d.Deleted))
	}
	if d.Whole {
		text += ", by comparing all"
	}
	return text
}

// Refreshed shows what one refresh of a read table did.
func Refreshed(t readtable.Table, d readtable.Done) Section {
	return Section{title: "Refresh",
		data: struct {
			head
			Table string `json:"table"`
			*refreshJSON
		}{head{Format: "headroom-refresh", Schema: schema}, t.SQL(), refreshData(d)},
		sheet: sheet{columns: []string{"table", "rows", "changed", "deleted", "seconds"},
			rows: [][]string{{t.SQL(), fmt.Sprint(d.Rows), fmt.Sprint(d.Changed), fmt.Sprint(d.Deleted), fmt.Sprint(d.Took.Seconds())}}},
		blocks: []block{para{Tone: good, Text: fmt.Sprintf("Refreshed %s: %s.", t.SQL(), refreshWords(d))}}}
}

// FreezeCost shows what it takes to make a table crash-safe; done says that
// it was done.
func FreezeCost(f ingest.Freezing, done bool) Section {
	sec := Section{title: "Freeze",
		data: struct {
			head
			ingest.Freezing
			Done bool `json:"done"`
		}{head{Format: "headroom-freeze", Schema: schema}, f, done},
		sheet: sheet{columns: []string{"table", "bytes", "wal_bytes", "estimated_seconds", "done"},
			rows: [][]string{{f.Table, fmt.Sprint(f.Bytes), fmt.Sprint(f.WAL), fmt.Sprint(f.AtRate), fmt.Sprint(done)}}}}
	if len(f.Parts) == 0 {
		sec.blocks = []block{para{Tone: good, Text: f.Table + " survives a crash already: no part of it is unlogged."}}
		return sec
	}
	it := item{Title: "freeze " + f.Table, Fields: []field{
		{Label: "written", Text: unit.Bytes(f.Bytes) + " of data and indexes, anew; as much free space is needed until the old ones are gone"},
		{Label: "WAL", Text: fmt.Sprintf("%s (wal_level is %s); standbys and archives get it, too", unit.Bytes(f.WAL), f.Level)},
		{Label: "time", Text: fmt.Sprintf("about %s at %s", unit.Seconds(f.AtRate), unit.Format(ingest.FreezeRate, unit.BytesPerSecond))},
		{Label: "lock", Text: "ACCESS EXCLUSIVE for that time: nobody reads or writes the table"},
	}}
	for _, p := range f.Parts {
		it.Fields = append(it.Fields, field{Label: "does", Text: "ALTER TABLE " + p + " SET LOGGED", Code: true})
	}
	sec.blocks = []block{it}
	if done {
		sec.blocks = append(sec.blocks, para{Tone: good, Text: "Frozen: " + f.Table + " survives a crash from now on."})
	}
	return sec
}
