package report

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"slices"
)

//go:embed page/page.gohtml
var pageSource string

//go:embed page/page.css
var pageStyle string

var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"clean":    clean,
	"tight":    func(s string) bool { return wide(s) <= 18 },
	"diffTone": func(l string) tone { return diffTone(l) },
}).Parse(pageSource))

// pageData is what the template sees.
type pageData struct {
	Title    string
	Style    template.CSS
	CSP      string
	Sections []pageSection
}

type pageSection struct {
	Title  string
	Blocks []block
}

// renderHTML writes one file that needs nothing else: no script, no request,
// its style allowed by hash and everything else forbidden.
func renderHTML(w io.Writer, title string, sections []Section) error {
	sum := sha256.Sum256([]byte(pageStyle))
	d := pageData{Title: orElse(title, "Headroom"), Style: template.CSS(pageStyle),
		CSP: fmt.Sprintf("default-src 'none'; style-src 'sha256-%s'; base-uri 'none'; form-action 'none'", base64.StdEncoding.EncodeToString(sum[:]))}
	for _, s := range sections {
		ps := pageSection{Title: s.title, Blocks: answersFirst(s.blocks)}
		if len(sections) == 1 {
			ps.Title = ""
		}
		d.Sections = append(d.Sections, ps)
	}
	var b bytes.Buffer
	if err := page.Execute(&b, d); err != nil {
		return fmt.Errorf("write html: %w", err)
	}
	_, err := w.Write(b.Bytes())
	return err
}

// answersFirst moves verdicts up behind the opening paragraphs: a page is read
// from its top, a terminal from its end.
func answersFirst(bs []block) []block {
	var opening, answers, rest []block
	for _, b := range bs {
		p, isPara := b.(para)
		switch {
		case isPara && p.Answer:
			answers = append(answers, b)
		case isPara && len(rest) == 0:
			opening = append(opening, b)
		default:
			rest = append(rest, b)
		}
	}
	return slices.Concat(opening, answers, rest)
}
