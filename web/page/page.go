// Package page renders what a person looks at: plain HTML made here, charts
// drawn in the browser from web/api's answers. Nothing is fetched from
// elsewhere, no script or style stands in a page, and all that came from a
// machine or its users is text to html/template.
package page

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"

	"headroom/topic/postgres"
	"headroom/web/api"
)

//go:embed assets templates
var files embed.FS

// Options says what the pages are made of.
type Options struct {
	Parts        api.Parts
	AllowChanges bool // plans may be applied from the page
	// Sessions lists what runs now on the server of a label.
	Sessions func(ctx context.Context, server string) ([]postgres.Session, error)
}

// pages is the handler of all pages.
type pages struct {
	Options
	mux   *http.ServeMux
	stamp string // changes with the assets, so that browsers take up new ones
}

// New returns the handler of all pages. It expects that who asks was checked.
func New(o Options) http.Handler {
	p := &pages{Options: o, mux: http.NewServeMux()}
	p.assets()
	p.mux.HandleFunc("GET /{$}", p.overview)
	return p
}

// ServeHTTP implements http.Handler.
func (p *pages) ServeHTTP(w http.ResponseWriter, r *http.Request) { p.mux.ServeHTTP(w, r) }

// assets serves what is embedded, to be kept by the browser for good: the
// address changes with the content.
func (p *pages) assets() {
	dir, err := fs.Sub(files, "assets")
	if err != nil {
		panic(err) // the embedded folder is part of the program
	}
	sum := sha256.New()
	_ = fs.WalkDir(dir, ".", func(path string, d fs.DirEntry, err error) error {
		if b, rerr := fs.ReadFile(dir, path); err == nil && rerr == nil {
			sum.Write(b)
		}
		return nil
	})
	p.stamp = hex.EncodeToString(sum.Sum(nil))[:8]
	static := http.StripPrefix("/static/", http.FileServerFS(dir))
	p.mux.HandleFunc("GET /static/", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
		static.ServeHTTP(w, r)
	})
}

// nav is one entry of the bar at the top.
type nav struct {
	Path, Title string
	Here        bool
}

// frame is what the layout needs of every page.
type frame struct {
	Title, Host, Version, Stamp string
	Nav                         []nav
	Charts                      bool
	Ranges                      []string
	Data                        any
}

// show renders a view: the layout with the named template's content.
func (p *pages) show(w http.ResponseWriter, r *http.Request, view, title string, charts bool, data any) {
	t, err := p.template(view)
	var b bytes.Buffer
	if err == nil {
		err = t.ExecuteTemplate(&b, "layout", frame{Title: title, Host: p.Parts.Host, Version: p.Parts.Version, Stamp: p.stamp,
			Nav: navOf(r.URL.Path), Charts: charts, Ranges: []string{"15m", "1h", "6h", "1d", "7d", "14d"}, Data: data})
	}
	if err != nil {
		http.Error(w, "this page could not be made: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(b.Bytes()) // that the reader has gone is nobody's fault
}

func (p *pages) template(view string) (*template.Template, error) {
	t, err := template.ParseFS(files, "templates/layout.html", "templates/"+view+".html")
	if err != nil {
		return nil, fmt.Errorf("read page %s: %w", view, err)
	}
	return t, nil
}

func navOf(path string) []nav {
	list := []nav{{Path: "/", Title: "Overview"}}
	for i := range list {
		list[i].Here = list[i].Path == path
	}
	return list
}
