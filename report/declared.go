package report

import (
	"fmt"
	"strings"

	"headroom/change"
	"headroom/trial"
	"headroom/unit"
)

type recipesJSON struct {
	head
	Changes []recipeJSON `json:"changes"`
}

type recipeJSON struct {
	ID     string    `json:"id"`
	Doc    string    `json:"doc"`
	Object string    `json:"object,omitempty"`
	Args   []argJSON `json:"args"`
	Needs  []string  `json:"needs"`
}

type argJSON struct {
	Name    string `json:"name"`
	Doc     string `json:"doc"`
	Example string `json:"example,omitempty"`
}

// Recipes lists the kinds of change that plan, apply and try take.
func Recipes(rs []*change.Recipe) Section {
	data := recipesJSON{head: head{Format: "headroom-changes", Schema: schema}, Changes: []recipeJSON{}}
	sec := Section{title: "Changes", sheet: sheet{columns: []string{"id", "object", "argument", "example", "doc"}}}
	for _, r := range rs {
		j := recipeJSON{ID: r.ID, Doc: r.Doc, Object: r.Object, Args: []argJSON{}, Needs: []string{}}
		for _, a := range r.Args {
			j.Args = append(j.Args, argJSON{a.Name, a.Doc, a.Eg})
			sec.sheet.rows = append(sec.sheet.rows, []string{r.ID, r.Object, a.Name, a.Eg, a.Doc})
		}
		for _, n := range r.Needs {
			j.Needs = append(j.Needs, n.Key())
		}
		data.Changes = append(data.Changes, j)
		sec.blocks = append(sec.blocks, recipeItem(r))
	}
	sec.data = data
	return sec
}

func recipeItem(r *change.Recipe) item {
	it := item{Title: recipeUsage(r), Body: r.Doc}
	for _, a := range r.Args {
		it.Fields = append(it.Fields, field{Label: orElse(a.Name, "any name"), Text: a.Doc})
	}
	if eg := recipeExample(r); eg != "" {
		it.Fields = append(it.Fields, field{Label: "example", Text: eg, Code: true})
	}
	return it
}

// recipeUsage is how the change is written: ID [OBJECT] name=value….
func recipeUsage(r *change.Recipe) string {
	words := []string{r.ID}
	if r.Object != "" {
		words = append(words, r.Object)
	}
	if len(r.Args) > 0 {
		words = append(words, "name=value…")
	}
	return strings.Join(words, " ")
}

// recipeExample is a whole command with the first argument that has an example.
func recipeExample(r *change.Recipe) string {
	for _, a := range r.Args {
		if a.Eg == "" {
			continue
		}
		words := []string{"headroom plan", r.ID}
		if r.Object != "" {
			words = append(words, r.Object)
		}
		if a.Name == "" {
			return strings.Join(append(words, a.Eg), " ")
		}
		return strings.Join(append(words, a.Name+"="+shellWord(a.Eg)), " ")
	}
	return ""
}

type workloadsJSON struct {
	head
	Workloads []workloadJSON `json:"workloads"`
}

type workloadJSON struct {
	Name     string          `json:"name"`
	Doc      string          `json:"doc"`
	Uses     trial.Uses      `json:"uses"`
	Params   []paramJSON     `json:"params"`
	Measures []trial.Measure `json:"measures"`
}

type paramJSON struct {
	Name    string `json:"name"`
	Doc     string `json:"doc"`
	Default string `json:"default"`
}

// Workloads lists what try takes after --on, with parameters and measures.
func Workloads(ws []*trial.Workload) Section {
	data := workloadsJSON{head: head{Format: "headroom-workloads", Schema: schema}, Workloads: []workloadJSON{}}
	sec := Section{title: "Workloads", sheet: sheet{columns: []string{"workload", "uses", "parameter", "default", "doc"}}}
	for _, w := range ws {
		j := workloadJSON{Name: w.Name, Doc: w.Doc, Uses: w.Uses, Params: []paramJSON{}, Measures: w.Measures}
		for _, p := range w.Params {
			j.Params = append(j.Params, paramJSON{p.Name, p.Doc, p.Default})
			sec.sheet.rows = append(sec.sheet.rows, []string{w.Name, string(w.Uses), p.Name, p.Default, p.Doc})
		}
		data.Workloads = append(data.Workloads, j)
		sec.blocks = append(sec.blocks, item{Title: w.Name, Body: w.Doc, Fields: []field{
			{Label: "runs on", Text: usesWords[w.Uses]}, {Label: "measures", Parts: measureWords(w.Measures)}}}, paramGrid(w))
	}
	sec.data = data
	return sec
}

var usesWords = map[trial.Uses]string{
	trial.Server: "a PostgreSQL server: private ones, or yours with --live",
	trial.Disk:   "a folder on a disk",
}

func paramGrid(w *trial.Workload) grid {
	g := grid{Columns: []column{{Name: "parameter"}, {Name: "default"}, {Name: "what it is"}}}
	for _, p := range w.Params {
		g.Rows = append(g.Rows, []string{p.Name, orElse(p.Default, "none"), p.Doc})
	}
	return g
}

func measureWords(ms []trial.Measure) []string {
	var out []string
	for i, m := range ms {
		better := "lower is better"
		if m.Higher {
			better = "higher is better"
		}
		if i == 0 {
			better += ", decides"
		}
		out = append(out, fmt.Sprintf("%s (%s: %s)", m.Name, noun(m), better))
	}
	return out
}

// Figure writes one figure of a measure in a sentence: "12.1 k upserts/s".
func Figure(v float64, m trial.Measure) string {
	if m.Unit == unit.PerSecond && m.Noun != "" {
		return strings.TrimSuffix(unit.Format(v, m.Unit), "/s") + " " + m.Noun
	}
	return noun(m) + " " + unit.Format(v, m.Unit)
}
