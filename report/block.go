package report

import "strings"

// tone is how a mark or word is to be felt; colours follow from it.
type tone string

const (
	plain  tone = ""
	strong tone = "strong"
	dim    tone = "dim"
	good   tone = "good"
	note   tone = "note"
	advice tone = "advice"
	warn   tone = "warning"
	danger tone = "danger"
)

// block is one piece of a section. The set is closed; each renderer knows all.
type block interface{ Kind() string }

// para is a paragraph.
type para struct {
	Tone   tone
	Text   string
	Answer bool // the verdict: last in a terminal, first on a page
}

// item is a finding, a step, an arm: a marked headline and labelled lines.
type item struct {
	Mark   mark
	Word   string // after the mark: "danger"
	Title  string
	Body   string
	Diff   []string // lines of a unified diff
	Fields []field
}

// field is one labelled line. Code is a command: shown as it is typed, never
// broken by us, so that it can be copied.
type field struct {
	Label string
	Text  string
	Parts []string // instead of Text: pieces that are not broken if they fit
	Code  bool
}

// Whole is the text in one piece.
func (f field) Whole() string {
	if f.Parts != nil {
		return strings.Join(f.Parts, "; ")
	}
	return f.Text
}

// grid is a table.
type grid struct {
	Title   string
	Columns []column
	Rows    [][]string
	Note    string
}

type column struct {
	Name    string
	Figures bool // aligned to the right
}

// list is a headline with entries below.
type list struct {
	Title   string
	Entries []entry
}

type entry struct {
	Text string
	More string // smaller, below
}

// figure is a picture; formats without pictures leave it out, since its
// figures are in a grid as well.
type figure struct{ *canvas }

// Kind names the block for the page's template.
func (para) Kind() string { return "para" }

// Kind names the block for the page's template.
func (item) Kind() string { return "item" }

// Kind names the block for the page's template.
func (grid) Kind() string { return "grid" }

// Kind names the block for the page's template.
func (list) Kind() string { return "list" }

// Kind names the block for the page's template.
func (figure) Kind() string { return "figure" }

// mark is a glyph in front of a headline, with its form for plain terminals.
type mark struct {
	Tone  tone
	Glyph string
	ASCII string
}

var (
	markDanger  = mark{danger, "✖", "[X]"}
	markWarning = mark{warn, "▲", "[!]"}
	markAdvice  = mark{advice, "●", "[*]"}
	markNote    = mark{note, "○", "[-]"}
	markChange  = mark{warn, "~", "~"}
	markAdd     = mark{good, "+", "+"}
	markRemove  = mark{danger, "-", "-"}
	markSame    = mark{dim, "=", "="}
)
