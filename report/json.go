package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
)

// bundle holds several sections as one JSON object.
type bundle struct {
	head
	Title    string `json:"title,omitempty"`
	Sections []any  `json:"sections"`
}

// renderJSON writes one section as its own object, several as a bundle. Keys
// are snake_case and stable; figures are in base units.
func renderJSON(w io.Writer, title string, sections []Section) error {
	var data any
	if len(sections) == 1 {
		data = sections[0].data
	} else {
		b := bundle{head: head{Format: "headroom-report", Schema: schema}, Title: title, Sections: []any{}}
		for _, s := range sections {
			b.Sections = append(b.Sections, s.data)
		}
		data = b
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(data); err != nil {
		return fmt.Errorf("write json: %w", err)
	}
	_, err := w.Write(cleanJSON(buf.Bytes()))
	return err
}
