package report

import (
	"fmt"
	"slices"
	"strings"
)

// A list (tables, settings) among many facts is cut short for a person; one
// that was asked for by name is not. CSV and JSON always hold all.
const (
	shownElements = 40
	askedByName   = 3 // facts asked for that are so few that they were
)

// factGrids shows one fact: its fields as rows with their sources, and each of
// its lists as a table of its own, one row for each of at most so many elements.
func factGrids(title string, leaves []leaf, most int) []block {
	var out []block
	fields := grid{Title: title, Columns: []column{{Name: "field"}, {Name: "value"}, {Name: "source"}}}
	lists := map[string][]leaf{}
	var order []string
	for _, l := range leaves {
		switch {
		case l.of != "":
			if lists[l.list] == nil {
				order = append(order, l.list)
			}
			lists[l.list] = append(lists[l.list], l)
		case l.shown() != "":
			fields.Rows = append(fields.Rows, []string{orElse(l.path, "value"), l.shown(), l.source})
		}
	}
	if len(fields.Rows) > 0 {
		out = append(out, fields)
		title = ""
	}
	for _, path := range order {
		heading := title
		if path != "" && title != "" {
			heading += ", " + path
		} else if path != "" {
			heading = path
		}
		out = append(out, listGrid(heading, lists[path], most))
	}
	if len(out) == 0 {
		out = append(out, para{Tone: strong, Text: title}, para{Text: "none"})
	}
	return out
}

// shown is what a person sees of a leaf; "" is left out.
func (l leaf) shown() string {
	if l.unknown != "" {
		return "could not tell: " + l.unknown
	}
	return l.pretty
}

// listGrid has a row for each element, a column for each field, and says below
// where they come from.
func listGrid(title string, leaves []leaf, most int) grid {
	g := grid{Title: title, Columns: []column{{Name: ""}}}
	var paths, sources []string
	left := 0
	for _, l := range leaves {
		left = max(left, l.element-most+1)
		if l.shown() == "" || l.pretty == l.of || l.element >= most {
			continue
		}
		at := slices.Index(paths, l.path)
		if at < 0 {
			at = len(paths)
			paths = append(paths, l.path)
			g.Columns = append(g.Columns, column{Name: orElse(l.path, "value")})
		}
		if !slices.Contains(sources, l.source) && l.source != "" {
			sources = append(sources, l.source)
		}
		if len(g.Rows) == 0 || g.Rows[len(g.Rows)-1][0] != l.of {
			g.Rows = append(g.Rows, []string{l.of})
		}
		row := &g.Rows[len(g.Rows)-1]
		for len(*row) <= at+1 {
			*row = append(*row, "")
		}
		(*row)[at+1] = l.shown()
	}
	for i := range g.Rows {
		for len(g.Rows[i]) < len(g.Columns) {
			g.Rows[i] = append(g.Rows[i], "")
		}
	}
	g.Note = "from " + strings.Join(sources, ", ")
	if left > 0 {
		g.Note = fmt.Sprintf("and %d more: -o json or -o csv has all; %s", left, g.Note)
	}
	return g
}
