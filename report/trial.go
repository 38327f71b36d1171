package report

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"headroom/stats"
	"headroom/trial"
	"headroom/unit"
)

// Trial shows a run: the arms with their figures, the latencies, how much
// noise there was, what disturbed it, and the verdict last. Its CSV is the raw
// rounds; its JSON is what trial.Load reads.
func Trial(r *trial.Result) Section {
	sec := Section{title: r.Name, data: r, sheet: roundSheet(r)}
	sec.blocks = append(sec.blocks, para{Tone: strong, Text: r.Name})
	if r.Question != "" {
		sec.blocks = append(sec.blocks, para{Tone: plain, Text: r.Question})
	}
	sec.blocks = append(sec.blocks, para{Tone: dim, Text: circumstances(r)}, armGrid(r), picture(forest(r)))
	if g := otherGrid(r); len(g.Rows) > 0 {
		sec.blocks = append(sec.blocks, g)
	}
	if g := latencyGrid(r); len(g.Rows) > 0 {
		sec.blocks = append(sec.blocks, g, picture(latencies(r)))
	}
	sec.blocks = append(sec.blocks, picture(sweep(r)), picture(distributions(r)), picture(overTime(r)), noiseList(r))
	if l := disturbed(r); len(l.Entries) > 0 {
		sec.blocks = append(sec.blocks, l)
	}
	if len(r.Warnings) > 0 {
		l := list{Title: "Warnings"}
		for _, w := range r.Warnings {
			l.Entries = append(l.Entries, entry{Text: w})
		}
		sec.blocks = append(sec.blocks, l)
	}
	for _, v := range r.Versus {
		sec.blocks = append(sec.blocks, para{Tone: verdictTone(v.Verdict), Text: Sentence(r, v), Answer: true})
	}
	var kept []block
	for _, b := range sec.blocks {
		if f, ok := b.(figure); !ok || f.canvas != nil {
			kept = append(kept, b)
		}
	}
	sec.blocks = kept
	return sec
}

// Sentence is the verdict on one arm in words with its figures, for example
// "max_wal_size 1GB → 10GB: 1.31 × the upserts/s (95 % interval 1.22–1.40, 10 pairs): faster".
func Sentence(r *trial.Result, v trial.Versus) string {
	if v.Look == 0 && v.Pairs == 0 {
		return fmt.Sprintf("%s: no answer yet: %s (%s)", armTitle(r, v.Arm), v.Decision, v.Reason)
	}
	return fmt.Sprintf("%s: %s × the %s (%s interval %s, %s): %s", armTitle(r, v.Arm), times(v.Ratio.Center), noun(r.Primary()),
		level(v.Ratio.Level), span(v.Ratio), plural(v.Pairs, "pair", "pairs"), v.Decision)
}

func verdictTone(v stats.Verdict) tone {
	switch v {
	case stats.Faster:
		return good
	case stats.Slower:
		return danger
	}
	return strong
}

// circumstances says where, when and how it was run.
func circumstances(r *trial.Result) string {
	counted := 0
	for _, x := range r.Rounds {
		if x.Counts {
			counted++
		}
	}
	load := "as fast as it goes"
	if r.Options.Rate > 0 {
		load = unit.Format(r.Options.Rate, unit.PerSecond) + " offered"
	}
	return fmt.Sprintf("%s; %s; %s of %s, %d of them count; %s; seed %d; took %s, ended: %s", r.Where, moment(r.Started),
		plural(len(r.Rounds), "round", "rounds"), unit.Seconds(r.Options.Round.Seconds()), counted, load, r.Options.Seed, unit.Seconds(r.Took), r.Ended)
}

// armGrid is the main table: each arm's centre and, but for the base, its
// ratio to it.
func armGrid(r *trial.Result) grid {
	m := r.Primary()
	g := grid{Columns: []column{{Name: "arm"}, {Name: noun(m), Figures: true}, {Name: "interval", Figures: true}, {Name: "ratio", Figures: true},
		{Name: "interval", Figures: true}, {Name: "p", Figures: true}, {Name: "n", Figures: true}}}
	for i, a := range r.Arms {
		row := []string{a.Name, "", "", "", "", "", ""}
		if s, ok := a.Figures[m.Name]; ok {
			row[1], row[2], row[6] = unit.Format(s.Median.Center, m.Unit), spanIn(s.Median, m.Unit), fmt.Sprint(s.N)
		}
		if v, ok := versus(r, a.Name); ok && i > 0 {
			row[3], row[4], row[5] = times(v.Ratio.Center)+" ×", span(v.Ratio), pValue(v.P)
			row[6] = fmt.Sprint(v.Pairs)
		}
		g.Rows = append(g.Rows, row)
	}
	note := "figures: median of the rounds; ratio: trimmed mean of n pairs"
	if len(r.Versus) > 0 {
		note += fmt.Sprintf(", %s interval, valid though it stopped early", level(r.Versus[0].Ratio.Level))
	}
	g.Note = note
	return g
}

// otherGrid has the measures that do not decide.
func otherGrid(r *trial.Result) grid {
	g := grid{Title: "Other measures (no verdict)", Columns: []column{{Name: "measure"}, {Name: "arm"}, {Name: "centre", Figures: true},
		{Name: "ratio", Figures: true}, {Name: "interval", Figures: true}, {Name: "p", Figures: true}}}
	var nouns []string
	for _, m := range r.Measures[1:] {
		if m.Noun != "" {
			nouns = append(nouns, m.Name+": "+m.Noun)
		}
		for _, a := range r.Arms {
			s, ok := a.Figures[m.Name]
			if !ok {
				continue
			}
			row := []string{m.Name, a.Name, unit.Format(s.Median.Center, m.Unit), "", "", ""}
			if v, ok := versus(r, a.Name); ok {
				for _, o := range v.Others {
					if o.Measure == m.Name {
						row[3], row[4], row[5] = times(o.Ratio.Center)+" ×", span(o.Ratio), pValue(o.P)
					}
				}
			}
			g.Rows = append(g.Rows, row)
		}
	}
	g.Note = strings.Join(nouns, "; ")
	return g
}

func latencyGrid(r *trial.Result) grid {
	g := grid{Title: "Latency of one operation", Columns: []column{{Name: "arm"}}}
	for _, n := range []string{"p50", "p90", "p99", "p99.9", "max", "operations"} {
		g.Columns = append(g.Columns, column{Name: n, Figures: true})
	}
	failed := slices.ContainsFunc(r.Arms, func(a trial.ArmResult) bool { return a.Failed+a.Skipped > 0 })
	if failed {
		g.Columns = append(g.Columns, column{Name: "failed", Figures: true}, column{Name: "skipped", Figures: true})
	}
	for _, a := range r.Arms {
		if l := a.Latency; l != nil {
			row := []string{a.Name}
			for _, v := range []float64{l.P50, l.P90, l.P99, l.P999, l.Max} {
				row = append(row, unit.Seconds(v))
			}
			row = append(row, count(l.N))
			if failed {
				row = append(row, count(a.Failed), count(a.Skipped))
			}
			g.Rows = append(g.Rows, row)
		}
	}
	if r.Options.Rate > 0 {
		g.Note = "measured from when an operation was due, so waiting in line counts"
	}
	return g
}

// noiseList says how much rounds differ with nothing changed and what that lets us see.
func noiseList(r *trial.Result) list {
	l := list{Title: "Noise"}
	n := r.Noise
	if n.SD <= 0 {
		l.Entries = append(l.Entries, entry{Text: "not known: too few rounds"})
		return l
	}
	l.Entries = append(l.Entries, entry{Text: fmt.Sprintf("with nothing changed, pairs of rounds differ by %s (standard deviation, from %s)",
		unit.Format(n.SD, unit.Ratio), n.From)})
	if n.Whole.N > n.N {
		l.Entries = append(l.Entries, entry{Text: fmt.Sprintf("over the whole run they scatter by %s (%s)", unit.Format(n.Whole.SD, unit.Ratio), plural(n.Whole.N, "pair", "pairs"))})
	}
	if n.Detectable > 0 && !math.IsInf(n.Detectable, 0) {
		l.Entries = append(l.Entries, entry{Text: fmt.Sprintf("smallest effect that this run finds: %s", unit.Format(n.Detectable, unit.Ratio))})
	}
	for _, need := range n.Needs {
		text := fmt.Sprintf("to find %s: %s, --budget %s --round %s", unit.Format(need.Effect, unit.Ratio),
			plural(need.Pairs, "pair", "pairs"), budget(need.Seconds), short(time.Duration(need.Round*float64(time.Second))))
		if need.Pairs == 0 {
			text = fmt.Sprintf("to find %s: more pairs than any run can hold", unit.Format(need.Effect, unit.Ratio))
		}
		l.Entries = append(l.Entries, entry{Text: text})
	}
	return l
}

// disturbed says how many rounds something else had a hand in, by cause.
func disturbed(r *trial.Result) list {
	type tally struct {
		rounds, counted int
		example         string
	}
	l := list{}
	by := map[trial.Cause]*tally{}
	var order []trial.Cause
	for _, x := range r.Rounds {
		for _, m := range x.Marks {
			t := by[m.Cause]
			if t == nil {
				t = &tally{example: m.Text}
				by[m.Cause] = t
				order = append(order, m.Cause)
			}
			t.rounds++
			if x.Counts {
				t.counted++
			}
		}
	}
	for _, c := range order {
		t := by[c]
		l.Entries = append(l.Entries, entry{Text: fmt.Sprintf("%s: %s, %d of them count all the same; the first: %s",
			c, plural(t.rounds, "round", "rounds"), t.counted, t.example)})
	}
	l.Title = "Disturbed"
	return l
}

func versus(r *trial.Result, arm string) (trial.Versus, bool) {
	for _, v := range r.Versus {
		if v.Arm == arm {
			return v, true
		}
	}
	return trial.Versus{}, false
}

func roundSheet(r *trial.Result) sheet {
	s := sheet{columns: []string{"phase", "block", "try", "arm", "at_seconds", "seconds", "done", "failed", "skipped", "counts", "wal_bytes", "checkpoints", "marks"}}
	for _, m := range r.Measures {
		s.columns = append(s.columns, strings.TrimSpace(m.Name+" "+strings.TrimSpace(string(m.Unit))))
	}
	for _, x := range r.Rounds {
		var marks []string
		for _, m := range x.Marks {
			marks = append(marks, string(m.Cause)+": "+m.Text)
		}
		row := []string{string(x.Phase), fmt.Sprint(x.Block), fmt.Sprint(x.Try), r.Arms[x.Arm].Name, bare(x.At), bare(x.Seconds), fmt.Sprint(x.Done),
			fmt.Sprint(x.Failed), fmt.Sprint(x.Skipped), fmt.Sprint(x.Counts), fmt.Sprint(x.WAL), fmt.Sprint(x.Checkpoints), strings.Join(marks, "; ")}
		for _, m := range r.Measures {
			cell := ""
			if v, ok := x.Figures[m.Name]; ok {
				cell = bare(v)
			}
			row = append(row, cell)
		}
		s.rows = append(s.rows, row)
	}
	return s
}
