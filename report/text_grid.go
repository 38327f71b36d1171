package report

import "strings"

// grid writes a table. One that is too wide is written row by row instead.
func (p *printer) grid(g grid) {
	if g.Title != "" {
		p.text("", 0, strong, g.Title)
	}
	widths, cells := p.measure(g)
	total := 0
	for _, w := range widths {
		total += w + 2
	}
	if total-2 > p.t.Width && !p.squeeze(g, widths, total-2-p.t.Width) {
		p.records(g, cells)
	} else {
		p.table(g, widths, cells)
	}
	if g.Note != "" {
		p.text("", 0, dim, g.Note)
	}
}

func (p *printer) measure(g grid) (widths []int, cells [][]string) {
	widths = make([]int, len(g.Columns))
	for i, c := range g.Columns {
		widths[i] = wide(p.glyphs(clean(c.Name)))
	}
	for _, row := range g.Rows {
		out := make([]string, len(row))
		for i, c := range row {
			out[i] = p.glyphs(clean(c))
			widths[i] = max(widths[i], wide(out[i]))
		}
		cells = append(cells, out)
	}
	return widths, cells
}

// minCell is the narrowest that a wrapped column may become.
const minCell = 16

// squeeze makes the widest column of text narrower, to be wrapped. It answers
// false if that is not enough.
func (p *printer) squeeze(g grid, widths []int, excess int) bool {
	widest := -1
	for i, c := range g.Columns {
		if !c.Figures && (widest < 0 || widths[i] > widths[widest]) {
			widest = i
		}
	}
	if widest < 0 || widths[widest]-excess < minCell {
		return false
	}
	widths[widest] -= excess
	return true
}

func (p *printer) table(g grid, widths []int, cells [][]string) {
	names := make([]string, len(g.Columns))
	for i, c := range g.Columns {
		names[i] = p.glyphs(clean(c.Name))
	}
	p.row(g, widths, names, dim)
	for _, row := range cells {
		p.row(g, widths, row, plain)
	}
}

// row writes one row; cells that were squeezed take several lines.
func (p *printer) row(g grid, widths []int, row []string, t tone) {
	parts := make([][]string, len(row))
	lines := 1
	for i, c := range row {
		parts[i] = []string{c}
		if wide(c) > widths[i] {
			parts[i] = wrap(c, widths[i])
		}
		lines = max(lines, len(parts[i]))
	}
	for n := range lines {
		var b strings.Builder
		for i := range row {
			cell := ""
			if n < len(parts[i]) {
				cell = parts[i][n]
			}
			b.WriteString(pad(cell, widths[i], g.Columns[i].Figures) + "  ")
		}
		p.line(p.paint(t, strings.TrimRight(b.String(), " ")))
	}
}

// records writes each row as a headline and its other cells with their names,
// for tables that are too wide.
func (p *printer) records(g grid, cells [][]string) {
	for _, row := range cells {
		p.text("", 0, plain, row[0])
		var pieces []string
		for i, c := range g.Columns[1:] {
			if row[i+1] != "" {
				pieces = append(pieces, p.glyphs(clean(c.Name))+" "+row[i+1])
			}
		}
		p.lines("  ", 2, plain, pack(pieces, p.t.Width-2))
	}
}
