package report

import (
	"fmt"

	"headroom/queue/letter"
	"headroom/unit"
)

// deadJSON is the list of what was set aside.
type deadJSON struct {
	head
	Letters []letter.Letter `json:"letters"`
}

// Dead lists batches that were set aside, in the order given.
func Dead(list []letter.Letter) Section {
	sec := Section{title: "Set aside", data: deadJSON{head{Format: "headroom-dead", Schema: schema}, append([]letter.Letter{}, list...)}}
	sec.sheet.columns = []string{"id", "at", "reason", "origin", "batch", "series", "points", "bytes", "from", "to", "unknown_because"}
	if len(list) == 0 {
		sec.blocks = []block{para{Tone: plain, Text: "No batch is set aside."}}
		return sec
	}
	g := grid{Columns: []column{{Name: "id"}, {Name: "when (UTC)"}, {Name: "from"}, {Name: "points"}, {Name: "of (UTC)"}, {Name: "reason"}}}
	for _, l := range list {
		points, of := fmt.Sprint(l.Points), shortMoment(l.From)
		if l.Unknown != "" {
			points, of = "could not tell: "+l.Unknown, unit.Bytes(l.Bytes)
		}
		g.Rows = append(g.Rows, []string{l.ID, shortMoment(l.At), l.Origin, points, of, l.Reason})
		sec.sheet.rows = append(sec.sheet.rows, []string{l.ID, stamp(l.At), l.Reason, l.Origin, l.Batch, fmt.Sprint(l.Series), fmt.Sprint(l.Points), fmt.Sprint(l.Bytes), stamp(l.From), stamp(l.To), l.Unknown})
	}
	sec.blocks = []block{g, item{Title: "Next", Fields: []field{
		{Label: "when the reason is gone", Text: "headroom up dead retry --all", Code: true},
		{Label: "or one by one", Text: "headroom up dead retry " + list[0].ID, Code: true},
		{Label: "never wanted again", Text: "headroom up dead drop " + list[0].ID, Code: true},
	}}}
	return sec
}
