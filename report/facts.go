package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"

	"headroom/fact"
)

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
	known, unknown := 0, reasons{}
	most := shownElements
	if len(sources) > 0 && len(sources) <= askedByName {
		most = math.MaxInt
	}
	var blocks []block
	for _, name := range s.Names() {
		e, _ := s.Entry(name)
		taken := e.At.UTC().Format("2006-01-02T15:04:05.000Z")
		title := name
		if about[name] != "" {
			title += ": " + about[name]
		}
		if e.Unknown != "" {
			unknown.add("could not tell: "+e.Unknown, name)
			sec.sheet.rows = append(sec.sheet.rows, []string{name, "", "", "", "", taken, e.Unknown})
			continue
		}
		known++
		leaves := flatten(e.Value)
		for _, l := range leaves {
			sec.sheet.rows = append(sec.sheet.rows, []string{name, l.whole(), l.bare, string(l.unit), l.source, taken, l.unknown})
		}
		blocks = append(blocks, factGrids(title, leaves, most)...)
	}
	sec.blocks = append([]block{
		para{Tone: strong, Text: fmt.Sprintf("%s known, %d could not tell", plural(known, "fact", "facts"), unknown.n)},
		para{Tone: dim, Text: fmt.Sprintf("%s, %s", orElse(s.Host, "unnamed host"), moment(s.Taken))},
	}, blocks...)
	if unknown.n > 0 {
		sec.blocks = append(sec.blocks, unknown.list())
	}
	return sec
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
