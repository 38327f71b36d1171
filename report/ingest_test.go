package report

import (
	"bytes"
	"testing"
	"time"

	"pgregory.net/rapid"

	"headroom/engine/ingest"
	"headroom/engine/readtable"
)

func TestHostileNamesOfIngestStayNames(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := func() string { return hostileName.Draw(t, "name") }
		sum := ingest.Summary{Table: s(), Rows: 1, Rejected: 2, Input: s(), Strategy: s(), Mode: s(), Durable: s(), Read: s(), Refreshes: 1,
			Resumed: &ingest.Position{Offset: 1}, Last: readtable.Done{Took: time.Second, Changed: 1, Whole: true}}
		sections := []Section{Ingested(sum), Refreshed(readtable.Table{Schema: "s", Read: s()}, sum.Last),
			FreezeCost(ingest.Freezing{Table: s(), Parts: []string{"public.a", "b.c"}, Bytes: 1, Level: s()}, true), FreezeCost(ingest.Freezing{Table: s()}, false)}
		for _, f := range []Format{Text, JSON, CSV, Markdown, HTML} {
			for _, term := range []Terminal{{Width: 80, UTF8: true}, {Width: 40}} {
				var b bytes.Buffer
				if err := Render(&b, f, term, s(), sections...); err != nil {
					t.Fatal(err)
				}
				judge(t, f, term, b.String())
			}
		}
	})
}
