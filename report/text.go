package report

import (
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
			p.text("", 0, strong, s.title)
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

// fields writes labelled lines, the labels in a column of their own unless
// that would take half of the width.
func (p *printer) fields(fs []field) {
	column := 0
	for _, f := range fs {
		column = max(column, wide(p.glyphs(clean(f.Label))))
	}
	beside := column+4 <= p.t.Width/2
	for _, f := range fs {
		label, indent := "  "+p.paint(dim, pad(p.glyphs(clean(f.Label)), column, false))+"  ", column+4
		if !beside {
			if f.Label != "" {
				p.text("  ", 2, dim, f.Label)
			}
			label, indent = "    ", 4
		}
		switch {
		case f.Code:
			p.line(label + p.paint(plain, clean(f.Text)))
		case f.Parts != nil:
			pieces := make([]string, len(f.Parts))
			for i, s := range f.Parts {
				pieces[i] = p.glyphs(clean(s))
			}
			p.lines(label, indent, plain, pack(pieces, p.t.Width-indent))
		default:
			p.text(label, indent, plain, f.Text)
		}
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
