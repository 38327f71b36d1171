package report

import (
	"fmt"

	"headroom/stats"
	"headroom/trial"
	"headroom/unit"
)

type comparisonJSON struct {
	head
	*trial.Comparison
}

// Comparison shows how two saved results differ, the verdicts last.
func Comparison(c *trial.Comparison) Section {
	sec := Section{title: "Comparison", data: comparisonJSON{head{Format: "headroom-comparison", Schema: schema}, c}, sheet: comparisonSheet(c)}
	sec.blocks = []block{para{Tone: strong, Text: "A: " + c.A}, para{Tone: strong, Text: "B: " + c.B}}
	sec.blocks = append(sec.blocks, comparisonGrids(c)...)
	if l := comparisonWarnings(c); len(l.Entries) > 0 {
		sec.blocks = append(sec.blocks, l)
	}
	for _, r := range c.Rows {
		if r.Verdict != "" {
			sec.blocks = append(sec.blocks, para{Tone: verdictTone(r.Verdict), Answer: true, Text: fmt.Sprintf("%s: B has %s × the %s of A (%s interval %s): %s",
				r.Arm, times(r.Change.Ratio.Center), noun(r.Measure), level(r.Change.Ratio.Level), span(r.Change.Ratio), r.Verdict)})
		}
	}
	return sec
}

// comparisonGrids has one table for each measure.
func comparisonGrids(c *trial.Comparison) []block {
	var grids []*grid
	at := map[string]*grid{}
	for _, r := range c.Rows {
		g := at[r.Measure.Name]
		if g == nil {
			g = &grid{Title: noun(r.Measure), Columns: []column{{Name: "arm"}}}
			for _, n := range []string{"A", "B", "B / A", "interval", "p", "n"} {
				g.Columns = append(g.Columns, column{Name: n, Figures: true})
			}
			at[r.Measure.Name] = g
			grids = append(grids, g)
		}
		u := r.Measure.Unit
		g.Rows = append(g.Rows, []string{r.Arm, unit.Format(r.A.Median.Center, u), unit.Format(r.B.Median.Center, u),
			times(r.Change.Ratio.Center) + " ×", span(r.Change.Ratio), pValue(r.Change.P), fmt.Sprintf("%d+%d", r.A.N, r.B.N)})
	}
	out := make([]block, len(grids))
	for i, g := range grids {
		out[i] = *g
	}
	return out
}

// comparisonWarnings has each warning once, whichever row it came with.
func comparisonWarnings(c *trial.Comparison) list {
	l := list{Title: "Warnings"}
	seen := map[string]bool{}
	add := func(s string) {
		if !seen[s] {
			l.Entries = append(l.Entries, entry{Text: s})
		}
		seen[s] = true
	}
	for _, w := range c.Warnings {
		add(w)
	}
	for _, r := range c.Rows {
		for _, w := range r.Change.Warnings {
			if r.Verdict == "" {
				continue
			}
			if w.Doubt == stats.NotPaired {
				add(w.Text)
			} else {
				add(r.Arm + ": " + w.Text)
			}
		}
	}
	return l
}

func comparisonSheet(c *trial.Comparison) sheet {
	s := sheet{columns: []string{"arm", "measure", "unit", "a", "b", "a_n", "b_n", "ratio", "lo", "hi", "level", "p", "verdict"}}
	for _, r := range c.Rows {
		i := r.Change.Ratio
		s.rows = append(s.rows, []string{r.Arm, r.Measure.Name, string(r.Measure.Unit), bare(r.A.Median.Center), bare(r.B.Median.Center),
			fmt.Sprint(r.A.N), fmt.Sprint(r.B.N), bare(i.Center), bare(i.Lo), bare(i.Hi), bare(i.Level), bare(r.Change.P), string(r.Verdict)})
	}
	return s
}
