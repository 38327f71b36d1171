package report

import (
	"fmt"
	"io"
	"strings"
)

// renderText writes for a person at a terminal.
func renderText(w io.Writer, t Terminal, sections []Section) error {
	p := &printer{t: t}
	for i, s := range sections {
		if i > 0 {
			p.line("")
		}
		if len(sections) > 1 {
			p.line(p.paint(strong, s.title))
			p.line("")
		}
		p.blocks(s.blocks)
	}
	_, err := io.WriteString(w, p.out.String())
	return err
}

// blocks writes all but pictures, an empty line between any two that are not
// both paragraphs: those are lines of one text.
func (p *printer) blocks(bs []block) {
	var last block
	for _, b := range bs {
		if b.Kind() == "figure" {
			continue
		}
		if last != nil && (last.Kind() != "para" || b.Kind() != "para") {
			p.line("")
		}
		p.block(b)
		last = b
	}
}

// printer collects the lines of a text.
type printer struct {
	t   Terminal
	out strings.Builder
}

// codes are the SGR attributes of the tones: the terminal's own basic colours,
// which its theme keeps readable.
var codes = map[tone]string{strong: "1", dim: "2", good: "32", note: "36", advice: "34", warn: "33", danger: "1;31"}

// paint colours text that is already laid out.
func (p *printer) paint(t tone, s string) string {
	if !p.t.UTF8 {
		s = toASCII(s)
	}
	if code := codes[t]; p.t.Color && code != "" && s != "" {
		return "\x1b[" + code + "m" + s + "\x1b[0m"
	}
	return s
}

func (p *printer) line(s string) {
	p.out.WriteString(strings.TrimRight(s, " "))
	p.out.WriteByte('\n')
}

// text writes a wrapped text; the first line begins with lead, already
// painted and so many columns wide, the others are indented as far.
func (p *printer) text(lead string, indent int, t tone, s string) {
	p.lines(lead, indent, t, wrap(p.glyphs(clean(s)), p.t.Width-indent))
}

// lines writes lines that are laid out already.
func (p *printer) lines(lead string, indent int, t tone, ls []string) {
	for i, l := range ls {
		if i > 0 {
			lead = strings.Repeat(" ", indent)
		}
		p.line(lead + p.paint(t, l))
	}
}

// glyphs writes text with what the terminal can show, before it is measured.
func (p *printer) glyphs(s string) string {
	if p.t.UTF8 {
		return s
	}
	return toASCII(s)
}

func (p *printer) block(b block) {
	switch b := b.(type) {
	case para:
		p.text("", 0, b.Tone, b.Text)
	case item:
		p.item(b)
	case grid:
		p.grid(b)
	case list:
		p.text("", 0, strong, b.Title)
		for _, e := range b.Entries {
			p.text("  ", 2, plain, e.Text)
			if e.More != "" {
				p.text("    ", 4, dim, e.More)
			}
		}
	}
}

func (p *printer) item(it item) {
	lead, width := p.mark(it.Mark)
	if it.Word != "" {
		lead += p.paint(it.Mark.Tone, it.Word) + "  "
		width += wide(it.Word) + 2
	}
	p.text(lead, width, strong, it.Title)
	if it.Body != "" {
		p.text("  ", 2, plain, it.Body)
	}
	for _, l := range it.Diff {
		p.line("    " + p.paint(diffTone(l), clean(l)))
	}
	p.fields(it.Fields)
}

func (p *printer) fields(fs []field) {
	labels := 0
	for _, f := range fs {
		labels = max(labels, wide(p.glyphs(clean(f.Label))))
	}
	for _, f := range fs {
		label := "  " + p.paint(dim, pad(p.glyphs(clean(f.Label)), labels, false)) + "  "
		if f.Code {
			p.line(label + p.paint(plain, clean(f.Text)))
			continue
		}
		if f.Parts != nil {
			pieces := make([]string, len(f.Parts))
			for i, s := range f.Parts {
				pieces[i] = p.glyphs(clean(s))
			}
			p.lines(label, labels+4, plain, pack(pieces, p.t.Width-labels-4))
			continue
		}
		p.text(label, labels+4, plain, f.Text)
	}
}

func (p *printer) mark(m mark) (lead string, width int) {
	s := m.Glyph
	if !p.t.UTF8 {
		s = m.ASCII
	}
	if s == "" {
		return "", 0
	}
	return p.paint(m.Tone, s) + " ", wide(s) + 1
}

func diffTone(line string) tone {
	switch {
	case strings.HasPrefix(line, "+"):
		return good
	case strings.HasPrefix(line, "-"):
		return danger
	case strings.HasPrefix(line, "@"):
		return note
	}
	return dim
}

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
		widths[i] = wide(p.glyphs(c.Name))
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
		names[i] = p.glyphs(c.Name)
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

// records writes each row as labelled lines, for narrow terminals.
func (p *printer) records(g grid, cells [][]string) {
	labels := 0
	for _, c := range g.Columns[1:] {
		labels = max(labels, wide(c.Name))
	}
	for _, row := range cells {
		p.text("", 0, plain, row[0])
		for i, c := range g.Columns[1:] {
			if row[i+1] == "" {
				continue
			}
			p.text(fmt.Sprintf("  %s  ", p.paint(dim, pad(c.Name, labels, false))), labels+4, plain, row[i+1])
		}
	}
}
