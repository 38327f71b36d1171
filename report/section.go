// Package report turns what the other floors found into text, JSON, CSV,
// Markdown and one-file HTML with pictures. It only formats: every figure
// comes computed, in base units, and pretty units exist here alone.
//
// A Section is one thing to show (findings, facts, a plan, a trial). It is
// built once and rendered by each format, so that all of them say the same.
// Names that come from the machine (tables, devices, settings) are hostile
// until cleaned: no control character, direction mark or markup gets through
// in any format.
package report

// Section is one thing to show; Findings, Facts, Plan and the like make it.
type Section struct {
	title  string  // heading where there are several
	blocks []block // text, Markdown, HTML
	sheet  sheet   // CSV
	data   any     // JSON: an object with format, schema and headroom (version)
}

// schema is the version of the JSON that this package itself defines.
const schema = 1

// head is what every JSON object of this package begins with.
type head struct {
	Format  string `json:"format"`
	Schema  int    `json:"schema"`
	Version string `json:"headroom"` // of Headroom that wrote it
}

// sheet is a table of bare values: base units, no grouping, for programs.
type sheet struct {
	columns []string
	rows    [][]string
}
