package report

import (
	"fmt"
	"strings"

	"headroom/lab"
	"headroom/topic"
	"headroom/trial"
)

type labsJSON struct {
	head
	Labs []labJSON `json:"labs"`
}

type labJSON struct {
	Name     string          `json:"name"`
	Title    string          `json:"title"`
	Question string          `json:"question"`
	Doc      string          `json:"doc"`
	Source   string          `json:"source"`
	Size     string          `json:"size"`
	Params   []paramJSON     `json:"params"`
	Measures []trial.Measure `json:"measures"`
	Arms     []labArmJSON    `json:"arms"`
}

type labArmJSON struct {
	Name string  `json:"name"`
	Doc  string  `json:"doc"`
	Then float64 `json:"then,omitempty"`
	As   string  `json:"as,omitempty"`
}

// Labs lists the ready-made experiments with their arms and parameters.
func Labs(ls []*lab.Lab) Section {
	data := labsJSON{head: head{Format: "headroom-labs", Schema: schema}, Labs: []labJSON{}}
	sec := Section{title: "Labs", sheet: sheet{columns: []string{"lab", "source", "parameter", "default", "doc"}}}
	for _, l := range ls {
		e, _, _ := l.Plan(nil) // a lab's own defaults are sound: a test holds every lab to it
		j := labJSON{Name: l.Name, Title: l.Title, Question: l.Question, Doc: l.Doc, Source: l.Source, Size: e.Size, Params: []paramJSON{}, Measures: l.Measures, Arms: []labArmJSON{}}
		g := grid{Columns: []column{{Name: "parameter"}, {Name: "default"}, {Name: "what it is"}}}
		for _, p := range l.Params {
			j.Params = append(j.Params, paramJSON{p.Name, p.Doc, p.Default})
			sec.sheet.rows = append(sec.sheet.rows, []string{l.Name, l.Source, p.Name, p.Default, p.Doc})
			g.Rows = append(g.Rows, []string{p.Name, orElse(p.Default, "none"), p.Doc})
		}
		if len(l.Params) == 0 {
			sec.sheet.rows = append(sec.sheet.rows, []string{l.Name, l.Source, "", "", ""})
		}
		var arms []string
		for _, a := range e.Arms {
			j.Arms = append(j.Arms, labArmJSON{a.Name, a.Doc, a.Then, a.As})
			arms = append(arms, a.Name)
		}
		data.Labs = append(data.Labs, j)
		it := item{Title: l.Name + ": " + l.Title, Body: bareWords(l.Question), Fields: []field{
			{Label: "source", Text: l.Source}, {Label: "arms", Parts: arms}, {Label: "measures", Parts: measureWords(l.Measures)},
			{Label: "size", Text: e.Size}, {Label: "run", Text: "headroom lab " + l.Name, Code: true}}}
		if len(ls) == 1 {
			it.Fields = append(it.Fields, field{Label: "how", Text: bareWords(l.Doc)})
		}
		sec.blocks = append(sec.blocks, it)
		if len(ls) == 1 && len(g.Rows) > 0 {
			sec.blocks = append(sec.blocks, g)
		}
	}
	sec.data = data
	return sec
}

// LabPage is the Markdown page of one lab, from its declaration.
func LabPage(l *lab.Lab) string {
	e, _, err := l.Plan(nil)
	if err != nil {
		return generated + "# " + md(l.Name) + "\n\n" + prose(err.Error()) + "\n"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s# %s\n\n%s\n\n%s\n\n```\nheadroom lab %s\n```\n\nSize unless asked otherwise: %s.\n", generated, md(l.Name), prose(l.Question), prose(l.Doc), l.Name, prose(e.Size))
	fmt.Fprintf(&b, "\n## Arms\n\nThe first is the base that the others are compared with. %s: %s.\n\n| arm | what it does | %s |\n| --- | --- | --- |\n", md(l.Source), prose(l.Then), md(l.Source))
	for _, a := range e.Arms {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", md(a.Name), prose(a.Doc), md(a.As))
	}
	if len(e.Claims) > 0 {
		b.WriteString("\nBesides these it compares:\n\n")
		for _, c := range e.Claims {
			fmt.Fprintf(&b, "- %s: %s with %s", prose(c.Text), md(c.Arm), md(c.Over))
			if c.Then > 0 {
				fmt.Fprintf(&b, " (%s: %s ×)", md(l.Source), times(c.Then))
			}
			b.WriteString("\n")
		}
	}
	if len(l.Params) > 0 {
		b.WriteString("\n## Parameters\n\nGive them as `-p name=value`.\n\n| name | default | what it is |\n| --- | --- | --- |\n")
		for _, p := range l.Params {
			fmt.Fprintf(&b, "| %s | %s | %s |\n", md(p.Name), md(orElse(p.Default, "none")), prose(p.Doc))
		}
	}
	b.WriteString("\n## Measures\n\nThe first decides the verdict.\n\n| name | what it is | unit | better |\n| --- | --- | --- | --- |\n")
	for _, m := range l.Measures {
		better := "lower"
		if m.Higher {
			better = "higher"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", md(m.Name), md(noun(m)), md(string(m.Unit)), better)
	}
	return b.String()
}

// LabPages are the pages of all labs, by path below docs.
func LabPages(topics []topic.Topic) map[string]string {
	out := map[string]string{}
	var index strings.Builder
	index.WriteString(generated + "# Labs\n\nReady-made experiments: `headroom lab NAME` runs one on private servers, each way of doing the work in turn, " +
		"checks that all did the same work, and puts what a source measured then beside today's figures. The figures of then come from the hardware of then: compare the ratios.\n")
	for _, t := range topics {
		if len(t.Labs) == 0 {
			continue
		}
		fmt.Fprintf(&index, "\n## %s: %s\n\n", md(t.Name), prose(t.Title))
		for _, l := range t.Labs {
			fmt.Fprintf(&index, "- [%s](%s.md): %s\n", md(l.Name), l.Name, prose(l.Title))
			out["labs/"+l.Name+".md"] = LabPage(l)
		}
	}
	out["labs/README.md"] = index.String()
	return out
}
