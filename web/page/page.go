// Package page renders what a person looks at: plain HTML made here, charts
// drawn in the browser from web/api's answers. Nothing is fetched from
// elsewhere, no script or style stands in a page, and all that came from a
// machine or its users is text to html/template.
package page

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"net/http"
	"net/url"

	"headroom/web/api"
)

//go:embed assets templates
var files embed.FS

// Options says what the pages are made of.
type Options struct {
	Parts        api.Parts
	AllowChanges bool // plans may be applied from the page
}

// pages is the handler of all pages.
type pages struct {
	Options
	mux    *http.ServeMux
	stamp  string // changes with the assets, so that browsers take up new ones
	views  map[string]*template.Template
	saved  kept[[]resource]
	places kept[places]
}

// entry is one entry of the bar at the top.
type entry struct {
	Path, Title, Key string // Key: pressed after g
	show             func(*pages, *view) (view string, charts bool, data any)
}

var entries = []entry{
	{"/", "Overview", "o", (*pages).overview},
	{"/host", "Host", "h", (*pages).host},
	{"/disks", "Disks", "d", (*pages).disks},
	{"/postgres", "PostgreSQL", "p", (*pages).postgres},
	{"/tables", "Tables", "t", (*pages).tables},
	{"/queries", "Queries", "s", (*pages).queries},
	{"/traffic", "Pool & web", "n", (*pages).traffic},
	{"/queue", "Queue", "q", (*pages).queue},
	{"/findings", "Findings", "f", (*pages).findings},
	{"/lab", "Lab", "l", (*pages).lab},
	{"/journal", "Journal", "j", (*pages).journal},
}

// New returns the handler of all pages. It expects that who asks was checked.
func New(o Options) http.Handler {
	p := &pages{Options: o, mux: http.NewServeMux(), views: map[string]*template.Template{}}
	p.assets()
	for _, e := range entries {
		path := e.Path
		if path == "/" {
			path = "/{$}"
		}
		p.mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) { p.answer(w, r, e) })
	}
	p.mux.HandleFunc("GET /lab/{name}", p.labResult)
	p.mux.HandleFunc("GET /journal/{id}", p.journalEntry)
	p.mux.Handle("GET /favicon.ico", http.RedirectHandler("/static/icon.svg", http.StatusSeeOther))
	p.mux.HandleFunc("GET /", p.nowhere)
	return p
}

// ServeHTTP implements http.Handler.
func (p *pages) ServeHTTP(w http.ResponseWriter, r *http.Request) { p.mux.ServeHTTP(w, r) }

func (p *pages) answer(w http.ResponseWriter, r *http.Request, e entry) {
	v, err := p.view(r)
	if err != nil {
		p.fault(w, r, http.StatusBadRequest, err.Error())
		return
	}
	name, charts, data := e.show(p, v)
	p.show(w, r, http.StatusOK, frame{Title: e.Title, view: v, Charts: charts, Data: data}, name)
}

func (p *pages) nowhere(w http.ResponseWriter, r *http.Request) {
	p.fault(w, r, http.StatusNotFound, fmt.Sprintf("There is no page %.80q.", r.URL.Path))
}

// fault is a page that says why there is no other.
func (p *pages) fault(w http.ResponseWriter, r *http.Request, status int, text string) {
	p.show(w, r, status, frame{Title: "Not here", view: &view{p: p, r: r, Host: p.Parts.Host}, Data: text}, "fault")
}

// nav is an entry as the page shows it.
type nav struct {
	Path, Title, Key string
	Here             bool
}

// frame is what the layout needs of every page.
type frame struct {
	*view
	Title, Version, Stamp string
	Nav                   []nav
	Charts                bool
	Ranges                []string
	Data                  any
}

// Allow says whether plans may be applied from here.
func (f frame) Allow() bool { return f.p.AllowChanges }

// show renders a view: the layout with the named template's content, or with
// the header X-Part only the part of it that a page renews.
func (p *pages) show(w http.ResponseWriter, r *http.Request, status int, f frame, view string) {
	f.Version, f.Stamp, f.Nav = p.Parts.Version, p.stamp, navOf(r.URL.Path)
	f.Ranges = []string{"15m", "1h", "6h", "1d", "7d", "14d"}
	t, err := p.template(view)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	name := "layout"
	if part := r.Header.Get("X-Part"); part != "" {
		name = "part-" + part
	}
	if t.Lookup(name) == nil {
		http.Error(w, "there is no such part", http.StatusNotFound)
		return
	}
	var b bytes.Buffer
	if err := t.ExecuteTemplate(&b, name, f); err != nil {
		http.Error(w, "this page could not be made: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // that the reader has gone is nobody's fault
}

func navOf(path string) []nav {
	var list []nav
	for _, e := range entries {
		here := e.Path == path || e.Path != "/" && len(path) > len(e.Path) && path[:len(e.Path)+1] == e.Path+"/"
		list = append(list, nav{Path: e.Path, Title: e.Title, Key: e.Key, Here: here})
	}
	return list
}

// Link is the address of a view of the same host and range, with the given
// parameters set ("" takes one away).
func (v *view) Link(path string, pairs ...string) string {
	q := url.Values{}
	for _, k := range []string{"host", "server", "from", "to"} {
		if x := v.r.URL.Query().Get(k); x != "" {
			q.Set(k, x)
		}
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		q.Del(pairs[i])
		if pairs[i+1] != "" {
			q.Set(pairs[i], pairs[i+1])
		}
	}
	if len(q) == 0 {
		return path
	}
	return path + "?" + q.Encode()
}
