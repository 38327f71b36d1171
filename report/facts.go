package report

import (
	"bytes"
	"encoding/json"
	"fmt"

	"headroom/fact"
)

// shownElements is how many elements of a list (tables, settings) are shown to
// a person; CSV and JSON hold all.
const shownElements = 40

// Facts shows the facts in s: each with unit, source and time, or why it could
// not be told. sources explain them; those of s that are not among them are
// shown without an explanation. Its JSON is what fact.Load reads.
func Facts(s *fact.Set, sources []fact.Any) Section {
	about := map[string]string{}
	for _, src := range sources {
		about[src.Key()] = src.About()
	}
	sec := Section{title: "Facts", data: savedFacts(s)}
	sec.sheet.columns = []string{"fact", "field", "value", "unit", "source", "taken", "unknown"}
	known, unknown := 0, 0
	var blocks []block
	for _, name := range s.Names() {
		e, _ := s.Entry(name)
		taken := e.At.UTC().Format("2006-01-02T15:04:05.000Z")
		g := grid{Title: name + orElse(": "+about[name], "")}
		if about[name] == "" {
			g.Title = name
		}
		if e.Unknown != "" {
			unknown++
			blocks = append(blocks, item{Mark: markUnknown, Title: g.Title, Body: "could not tell: " + e.Unknown})
			sec.sheet.rows = append(sec.sheet.rows, []string{name, "", "", "", "", taken, e.Unknown})
			continue
		}
		known++
		leaves := flatten(e.Value)
		for _, l := range leaves {
			sec.sheet.rows = append(sec.sheet.rows, []string{name, l.path, l.bare, string(l.unit), l.source, taken, l.unknown})
		}
		blocks = append(blocks, factGrid(g, leaves))
	}
	sec.blocks = append([]block{
		para{Tone: strong, Text: fmt.Sprintf("%s known, %d could not tell", plural(known, "fact", "facts"), unknown)},
		para{Tone: dim, Text: fmt.Sprintf("%s, %s", orElse(s.Host, "unnamed host"), moment(s.Taken))},
	}, blocks...)
	return sec
}

// factGrid shows the fields of one fact.
func factGrid(g grid, leaves []leaf) grid {
	g.Columns = []column{{Name: "field"}, {Name: "value"}, {Name: "source"}}
	hidden := 0
	for _, l := range leaves {
		if l.element >= shownElements {
			hidden = max(hidden, l.element-shownElements+1)
			continue
		}
		value := l.pretty
		if l.unknown != "" {
			value = "could not tell: " + l.unknown
		}
		if value != "" {
			g.Rows = append(g.Rows, []string{orElse(l.path, "value"), value, l.source})
		}
	}
	if len(g.Rows) == 0 {
		g.Rows = [][]string{{"value", "none", ""}}
	}
	if hidden > 0 {
		g.Note = fmt.Sprintf("and %d more: -o json or -o csv has all", hidden)
	}
	return g
}

// savedFacts is the set as fact.Set.Save writes it.
func savedFacts(s *fact.Set) any {
	var b bytes.Buffer
	if err := s.Save(&b); err != nil {
		return failed{err}
	}
	return json.RawMessage(b.Bytes())
}

// failed carries an error to where JSON is written.
type failed struct{ err error }

// MarshalJSON implements json.Marshaler.
func (f failed) MarshalJSON() ([]byte, error) { return nil, f.err }
