package report

import (
	"fmt"
	"io"
	"strings"
	"unicode"
)

// renderMarkdown writes GitHub-flavoured Markdown with the same content as the
// text.
func renderMarkdown(w io.Writer, title string, sections []Section) error {
	m := &markdown{}
	if title != "" {
		m.part("# " + md(title))
	}
	for _, s := range sections {
		if s.title != "" && (len(sections) > 1 || title == "") {
			m.part("## " + md(s.title))
		}
		for _, b := range s.blocks {
			m.block(b)
		}
	}
	_, err := io.WriteString(w, strings.TrimLeft(m.b.String(), "\n"))
	return err
}

type markdown struct{ b strings.Builder }

func (m *markdown) part(s string) { fmt.Fprintf(&m.b, "\n%s\n", s) }

func (m *markdown) block(b block) {
	switch b := b.(type) {
	case para:
		if b.Tone != plain && b.Tone != dim {
			m.part("**" + md(b.Text) + "**")
		} else {
			m.part(md(b.Text))
		}
	case item:
		m.item(b)
	case grid:
		m.grid(b)
	case list:
		m.part("**" + md(b.Title) + "**")
		m.b.WriteByte('\n')
		for _, e := range b.Entries {
			fmt.Fprintf(&m.b, "- %s\n", md(e.Text))
			if e.More != "" {
				fmt.Fprintf(&m.b, "  <br>%s\n", md(e.More))
			}
		}
	}
}

func (m *markdown) item(it item) {
	lead := ""
	if it.Word != "" {
		lead = it.Word + ": "
	} else if it.Mark.Glyph != "" {
		lead = "`" + it.Mark.Glyph + "` "
	}
	m.part("### " + lead + md(it.Title))
	if it.Body != "" {
		m.part(md(it.Body))
	}
	if len(it.Diff) > 0 {
		fence := "```"
		for _, l := range it.Diff {
			for strings.Contains(l, fence) {
				fence += "`"
			}
		}
		lines := make([]string, len(it.Diff))
		for i, l := range it.Diff {
			lines[i] = clean(l)
		}
		m.part(fence + "diff\n" + strings.Join(lines, "\n") + "\n" + fence)
	}
	if len(it.Fields) > 0 {
		m.b.WriteByte('\n')
	}
	for _, f := range it.Fields {
		text := md(f.Whole())
		if f.Code {
			text = code(f.Text)
		}
		if f.Label != "" {
			text = md(f.Label) + ": " + text
		}
		fmt.Fprintf(&m.b, "- %s\n", text)
	}
}

func (m *markdown) grid(g grid) {
	if g.Title != "" {
		m.part("**" + md(g.Title) + "**")
	}
	names, rules := []string{}, []string{}
	for _, c := range g.Columns {
		names = append(names, md(c.Name))
		if c.Figures {
			rules = append(rules, "---:")
		} else {
			rules = append(rules, "---")
		}
	}
	m.part("| " + strings.Join(names, " | ") + " |\n| " + strings.Join(rules, " | ") + " |")
	for _, row := range g.Rows {
		cells := make([]string, len(row))
		for i, c := range row {
			cells[i] = md(c)
		}
		fmt.Fprintf(&m.b, "| %s |\n", strings.Join(cells, " | "))
	}
	if g.Note != "" {
		m.part(md(g.Note))
	}
}

// md writes text so that Markdown takes nothing in it for markup. An
// underscore inside a word is left alone: it means nothing there.
func md(s string) string {
	runes := []rune(clean(s))
	var b strings.Builder
	for i, r := range runes {
		switch r {
		case '\\', '`', '*', '[', ']', '|', '~':
			b.WriteRune('\\')
			b.WriteRune(r)
		case '<':
			b.WriteString("&lt;")
		case '>':
			b.WriteString("&gt;")
		case '&':
			b.WriteString("&amp;")
		case '_':
			if i == 0 || i == len(runes)-1 || !wordRune(runes[i-1]) || !wordRune(runes[i+1]) {
				b.WriteRune('\\')
			}
			b.WriteRune(r)
		case '#', '+', '-':
			if i == 0 {
				b.WriteRune('\\')
			}
			b.WriteRune(r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

func wordRune(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_' }

// code writes a code span with a fence longer than any run of backticks in it.
func code(s string) string {
	s = clean(s)
	fence := "`"
	for strings.Contains(s, fence) {
		fence += "`"
	}
	if strings.HasPrefix(s, "`") || strings.HasSuffix(s, "`") {
		s = " " + s + " "
	}
	return fence + s + fence
}
