package page

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"headroom/fail"
	"headroom/lab"
	"headroom/report"
	"headroom/trial"
)

// labData is the list of results.
type labData struct{ *view }

func (p *pages) lab(v *view) (string, bool, any) { return "lab", false, labData{v} }

// result is one result of a trial or a lab.
type result struct {
	Name, Kind, Title, Workload, Verdict string
	Started                              time.Time
	Seconds                              float64
	Problem                              string // why it cannot be read
}

// Results lists them, the newest first.
func (d labData) Results() list[result] {
	names, err := d.p.Parts.TrialNames()
	if err != nil {
		return list[result]{Why: err.Error()}
	}
	var out []result
	for _, name := range names {
		r := result{Name: name}
		if o, err := d.p.read(name); err != nil {
			r.Problem = err.Error()
		} else {
			r = o.result
		}
		out = append(out, r)
	}
	slices.SortStableFunc(out, func(a, b result) int { return b.Started.Compare(a.Started) })
	return list[result]{List: out}
}

// opened is a result that was read.
type opened struct {
	result
	section report.Section
}

// read reads one result.
func (p *pages) read(name string) (opened, error) {
	o := opened{result: result{Name: name}}
	text, err := p.Parts.ReadTrial(name)
	if err != nil {
		return o, err
	}
	var head struct{ Format string }
	if err := json.Unmarshal(text, &head); err != nil {
		return o, fmt.Errorf("read result: %w", err)
	}
	return o, o.load(head.Format, text)
}

func (o *opened) load(format string, text []byte) error {
	if format == "headroom-lab" {
		r, err := lab.Load(bytes.NewReader(text))
		if err != nil {
			return err
		}
		o.Kind, o.Title, o.Workload, o.Started, o.Seconds = "lab", r.Title, r.Lab, r.Started, r.Took
		o.section = report.Lab(r)
		return nil
	}
	r, err := trial.Load(bytes.NewReader(text))
	if err != nil {
		return err
	}
	o.Kind, o.Title, o.Workload, o.Started, o.Seconds = "trial", r.Name, r.Workload, r.Started, r.Took
	for i, v := range r.Versus {
		if i == 0 {
			o.Verdict = report.Sentence(r, v)
		}
	}
	o.section = report.Trial(r)
	return nil
}

// resultData is the page of one result.
type resultData struct {
	result
	Text string
}

func (p *pages) labResult(w http.ResponseWriter, r *http.Request) {
	v, err := p.view(r)
	if err != nil {
		p.fault(w, r, http.StatusBadRequest, err.Error())
		return
	}
	o, err := p.read(r.PathValue("name"))
	if errors.Is(err, fail.ErrAbsent) {
		p.fault(w, r, http.StatusNotFound, fmt.Sprintf("There is no result %.60q.", r.PathValue("name")))
		return
	}
	if err == nil && r.URL.Query().Get("as") == "report" {
		err = asReport(w, o)
		if err == nil {
			return
		}
	}
	text := ""
	if err == nil {
		text, err = plain(o.section)
	}
	if err != nil {
		p.fault(w, r, http.StatusInternalServerError, err.Error())
		return
	}
	p.show(w, r, http.StatusOK, frame{Title: o.Title, view: v, Data: resultData{o.result, text}}, "result")
}

// asReport answers with the page that `headroom report -o html` makes. Its one
// style stands in it and is allowed by its hash.
func asReport(w http.ResponseWriter, o opened) error {
	var b bytes.Buffer
	if err := report.Render(&b, report.HTML, report.Terminal{}, o.Title, o.section); err != nil {
		return err
	}
	_, rest, _ := strings.Cut(b.String(), "<style>")
	style, _, _ := strings.Cut(rest, "</style>")
	sum := sha256.Sum256([]byte(style))
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(b.Bytes()) // that the reader has gone is nobody's fault
	return nil
}
