package report

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"headroom/lab"
	"headroom/stats"
	"headroom/unit"
)

// Lab shows a run of a lab: each arm's figure of then beside today's, what
// each gains, and what follows. Its CSV is the raw turns; its JSON is what
// lab.Load reads.
func Lab(r *lab.Result) Section {
	sec := Section{title: "lab " + r.Lab, data: r, sheet: turnSheet(r)}
	sec.blocks = append(sec.blocks, para{Tone: strong, Text: r.Lab + ": " + r.Title}, para{Text: r.Question},
		para{Tone: dim, Text: labCircumstances(r)}, thenGrid(r))
	if c := labForest(r); c != nil {
		sec.blocks = append(sec.blocks, picture(c))
	}
	if g := labOthers(r); len(g.Rows) > 0 {
		sec.blocks = append(sec.blocks, g)
	}
	sec.blocks = append(sec.blocks, labArms(r))
	if l := labSettings(r); len(l.Entries) > 0 {
		sec.blocks = append(sec.blocks, l)
	}
	if len(r.Skipped) > 0 {
		l := list{Title: "Left out"}
		for _, x := range r.Skipped {
			l.Entries = append(l.Entries, entry{Text: x.Arm + ": " + x.Why})
		}
		sec.blocks = append(sec.blocks, l)
	}
	if len(r.Warnings) > 0 {
		l := list{Title: "Warnings"}
		for _, w := range r.Warnings {
			l.Entries = append(l.Entries, entry{Text: w})
		}
		sec.blocks = append(sec.blocks, l)
	}
	for _, c := range r.Claims {
		sec.blocks = append(sec.blocks, para{Tone: verdictTone(c.Verdict), Text: claimSentence(r, c), Answer: true})
	}
	for _, s := range append(conclusion(r), r.Said...) {
		sec.blocks = append(sec.blocks, para{Tone: strong, Text: s, Answer: true})
	}
	return sec
}

func labCircumstances(r *lab.Result) string {
	rounds := len(r.Counted(0, r.Primary().Name))
	text := fmt.Sprintf("%s; %s; %s; %s of %s, one after the other in random order; seed %d; took %s and %s to set up; ended: %s", r.Size, r.Where, moment(r.Started),
		plural(rounds, "round", "rounds"), plural(len(r.Arms), "arm", "arms"), r.Options.Seed, unit.Seconds(r.Took), unit.Seconds(r.Setup), r.Ended)
	if r.Host != "" {
		text += "; on " + r.Host
	}
	return text
}

// thenGrid is the source's table beside today's; without figures of then
// those columns are left out.
func thenGrid(r *lab.Result) grid {
	m := r.Primary()
	then := slices.ContainsFunc(r.Arms, func(a lab.ArmResult) bool { return a.As != "" })
	g := grid{Columns: []column{{Name: "arm"}}}
	names := []string{"today", "gain", "interval", "n"}
	if then {
		names = append([]string{r.Source, "gain then"}, names...)
	}
	for _, n := range names {
		g.Columns = append(g.Columns, column{Name: n, Figures: true})
	}
	for i, a := range r.Arms {
		was, now := "", []string{"", "", "", ""}
		if s, ok := a.Figures[m.Name]; ok {
			now[0], now[3] = unit.Format(s.Median.Center, m.Unit), fmt.Sprint(s.N)
		}
		if v, ok := r.Against(a.Name); ok && i > 0 {
			if v.Then > 0 {
				was = times(v.Then) + " ×"
			}
			if v.Pairs > 0 {
				now[1], now[2], now[3] = times(v.Gain.Center)+" ×", labSpan(v), fmt.Sprint(v.Pairs)
			}
		}
		row := []string{a.Name}
		if then {
			row = append(row, a.As, was)
		}
		g.Rows = append(g.Rows, append(row, now...))
	}
	g.Note = fmt.Sprintf("today: %s, median of the rounds; gain: how many times as good as %q, trimmed mean of n rounds, %s interval",
		noun(m), r.Arms[0].Name, level(r.Level))
	if then {
		g.Note += fmt.Sprintf(". %s: %s", r.Source, orElse(r.Then, "no figures"))
	}
	return g
}

// labOthers has the measures that do not decide.
func labOthers(r *lab.Result) grid {
	g := grid{Title: "Other measures (no verdict)", Columns: []column{{Name: "arm"}}}
	for _, m := range r.Measures[1:] {
		g.Columns = append(g.Columns, column{Name: noun(m), Figures: true})
	}
	if len(r.Measures) == 1 {
		return g
	}
	for _, a := range r.Arms {
		row := []string{a.Name}
		for _, m := range r.Measures[1:] {
			cell := ""
			if s, ok := a.Figures[m.Name]; ok {
				cell = unit.Format(s.Median.Center, m.Unit)
			}
			row = append(row, cell)
		}
		g.Rows = append(g.Rows, row)
	}
	return g
}

func labArms(r *lab.Result) list {
	l := list{Title: "What the arms do"}
	for _, a := range r.Arms {
		l.Entries = append(l.Entries, entry{Text: a.Name + ": " + bareWords(a.Doc)})
	}
	return l
}

// labSettings lists the parameters and the settings of arms with servers of
// their own.
func labSettings(r *lab.Result) list {
	l := list{Title: "Parameters and settings"}
	if len(r.Params) > 0 {
		l.Entries = append(l.Entries, entry{Text: "parameters: " + assignments(r.Params)})
	}
	for _, a := range r.Arms {
		if len(a.Settings) > 0 {
			l.Entries = append(l.Entries, entry{Text: a.Name + ": " + assignments(a.Settings)})
		}
	}
	return l
}

func assignments(m map[string]string) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, k+"="+m[k])
	}
	return strings.Join(out, " ")
}

// claimSentence is a comparison of two arms with the source's beside it.
func claimSentence(r *lab.Result, v lab.Versus) string {
	s := fmt.Sprintf("%s: %s is %s × as good as %s (%s interval %s, %s): %s", bareWords(v.Text), v.Arm, times(v.Gain.Center), v.Over,
		level(r.Level), labSpan(v), plural(v.Pairs, "round", "rounds"), v.Decision)
	if v.Pairs == 0 {
		s = fmt.Sprintf("%s: no answer yet: %s", bareWords(v.Text), v.Decision)
	}
	if v.Then > 0 {
		s += fmt.Sprintf("; %s says %s ×", r.Source, times(v.Then))
	}
	return s + "."
}

// conclusion says in a few sentences what the run shows.
func conclusion(r *lab.Result) []string {
	var out []string
	if rounds := len(r.Counted(0, r.Primary().Name)); rounds < stats.MinPairs {
		return []string{fmt.Sprintf("No verdict: %s, and one needs %d.", plural(rounds, "round", "rounds"), stats.MinPairs)}
	}
	if v, ok := r.Against(r.Best); r.Ceiling {
		// what the others cost is said by the lab
	} else if ok {
		s := fmt.Sprintf("The best here is %s: %s × as good as %s (%s interval %s, %s)", v.Arm, times(v.Gain.Center), v.Over, level(r.Level), labSpan(v), plural(v.Pairs, "round", "rounds"))
		if v.Then > 0 {
			s += fmt.Sprintf("; %s says %s ×", r.Source, times(v.Then))
		}
		out = append(out, s+".")
		if len(r.AsGood) > 0 {
			out = append(out, fmt.Sprintf("Not told apart from it: %s.", strings.Join(r.AsGood, "; ")))
		}
	} else {
		out = append(out, fmt.Sprintf("No arm is better than %s beyond doubt: %s.", r.Arms[0].Name, verdicts(r)))
	}
	known := 0
	for _, a := range r.Arms {
		if a.Then > 0 {
			known++
		}
	}
	switch {
	case known < 2:
	case len(r.Swapped) == 0:
		out = append(out, fmt.Sprintf("Nothing stands the other way round than in %s.", r.Source))
	default:
		for _, w := range r.Swapped {
			out = append(out, fmt.Sprintf("Other than in %s, %s is better than %s here, in every round.", r.Source, w.Better, w.Worse))
		}
	}
	return out
}

// bareWords is our own text without the marks that pages show code by.
func bareWords(s string) string { return strings.ReplaceAll(s, "`", "") }

// labSpan is the interval of a gain. Two or three rounds can give one that
// holds everything, which is better said in words.
func labSpan(v lab.Versus) string {
	const hopeless = 1e3
	if v.Pairs < stats.MinPairs && !(v.Gain.Hi < v.Gain.Lo*hopeless) {
		return "open"
	}
	return span(v.Gain)
}

// openShown is how many arms without a verdict are named.
const openShown = 4

// verdicts is each arm's verdict in a few words; of those without one, the
// nearest to it.
func verdicts(r *lab.Result) string {
	var slower, same []string
	var undecided []lab.Versus
	for _, v := range r.Versus {
		switch v.Verdict {
		case stats.Slower:
			slower = append(slower, v.Arm)
		case stats.NoDifference:
			same = append(same, v.Arm)
		default:
			undecided = append(undecided, v)
		}
	}
	var out []string
	add := func(word string, names []string) {
		if len(names) > 0 {
			out = append(out, word+": "+strings.Join(names, "; "))
		}
	}
	add("slower", slower)
	add("no difference seen", same)
	rounds := func(v lab.Versus) int { // that are missing, as far as is known
		if v.More == 0 {
			return math.MaxInt
		}
		return v.More
	}
	slices.SortStableFunc(undecided, func(a, b lab.Versus) int { return cmp.Compare(rounds(a), rounds(b)) })
	var near []string
	for _, v := range undecided[:min(len(undecided), openShown)] {
		near = append(near, v.Arm+" ("+v.Decision.String()+")")
	}
	if more := len(undecided) - openShown; more > 0 {
		near = append(near, fmt.Sprintf("and %d others", more))
	}
	add("not decided", near)
	return strings.Join(out, "; ")
}

// labForest draws each arm's gain with its interval, and the source's beside
// it as a ring.
func labForest(r *lab.Result) *canvas {
	var known []lab.Versus
	lo, hi := 1.0, 1.0
	for _, v := range r.Versus {
		if bounded(v.Gain) {
			known = append(known, v)
			lo, hi = min(lo, v.Gain.Lo), max(hi, v.Gain.Hi)
			if v.Then > 0 {
				lo, hi = min(lo, v.Then), max(hi, v.Then)
			}
		}
	}
	if len(known) == 0 || !(lo > 0) || math.IsInf(hi, 0) {
		return nil
	}
	const row, top = 46, 6
	bottom := float64(top + row*len(known))
	c := &canvas{Title: "Each arm against " + r.Arms[0].Name, Height: int(bottom) + 40, Note: "Dashed: the same as " + r.Arms[0].Name + ". Ring: what " + r.Source + " says. Right is better."}
	s := scale{lo: max(lo/1.15, 1e-4), hi: hi * 1.15, a: left, b: right, log: true}
	c.axis(s, top, bottom, "× as good as "+r.Arms[0].Name, times)
	c.line("one", s.at(1), top, s.at(1), bottom)
	for i, v := range known {
		y, arm := float64(top+row*i), slices.IndexFunc(r.Arms, func(a lab.ArmResult) bool { return a.Name == v.Arm })
		c.text("", left, y+16, v.Arm)
		c.text("end", right, y+16, times(v.Gain.Center)+" ("+span(v.Gain)+")")
		c.line(armClass(arm)+" bar", s.at(v.Gain.Lo), y+30, s.at(v.Gain.Hi), y+30)
		c.point(armClass(arm)+" dot", armPoint(arm), s.at(v.Gain.Center), y+30)
		c.Desc += fmt.Sprintf("%s: %s, %s interval %s", v.Arm, times(v.Gain.Center), level(r.Level), span(v.Gain))
		if v.Then > 0 {
			c.point("ring", ringPoint, s.at(v.Then), y+30)
			c.Desc += fmt.Sprintf(", %s says %s", r.Source, times(v.Then))
		}
		c.Desc += ". "
	}
	return c
}

func turnSheet(r *lab.Result) sheet {
	s := sheet{columns: []string{"round", "arm", "at_seconds", "took_seconds", "units", "counts"}}
	for _, m := range r.Measures {
		s.columns = append(s.columns, strings.TrimSpace(m.Name+" "+string(m.Unit)))
	}
	for _, t := range r.Turns {
		row := []string{fmt.Sprint(t.Round), r.Arms[t.Arm].Name, bare(t.At), bare(t.Took), fmt.Sprint(t.Units), fmt.Sprint(t.Counts)}
		for _, m := range r.Measures {
			cell := ""
			if v, ok := t.Figures[m.Name]; ok {
				cell = bare(v)
			}
			row = append(row, cell)
		}
		s.rows = append(s.rows, row)
	}
	return s
}
