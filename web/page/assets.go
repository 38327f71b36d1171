package page

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"html/template"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"
	"time"

	"headroom/unit"
)

// asset is one embedded file, and the same compressed.
type asset struct {
	kind        string
	plain, gzip []byte
}

// assets reads what is embedded: files that browsers keep for good, because
// their address changes with their content, and templates.
func (p *pages) assets() {
	all := map[string]asset{}
	sum := sha256.New()
	must(fs.WalkDir(files, "assets", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		sum.Write(b)
		all[path.Base(name)] = asset{kind: kindOf(name), plain: b, gzip: squeeze(b)}
		return nil
	}))
	p.stamp = hex.EncodeToString(sum.Sum(nil))[:8]
	p.mux.HandleFunc("GET /static/{name}", func(w http.ResponseWriter, r *http.Request) {
		a, ok := all[r.PathValue("name")]
		if !ok {
			http.NotFound(w, r)
			return
		}
		h := w.Header()
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
		h.Set("Content-Type", a.kind)
		h.Set("Vary", "Accept-Encoding")
		body := a.plain
		if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			h.Set("Content-Encoding", "gzip")
			body = a.gzip
		}
		_, _ = w.Write(body) // that the reader has gone is nobody's fault
	})
	list, err := fs.Glob(files, "templates/*.html")
	must(err)
	for _, name := range list {
		view := strings.TrimSuffix(path.Base(name), ".html")
		if view == "layout" {
			continue
		}
		p.views[view] = template.Must(template.New(view).Funcs(words).ParseFS(files, "templates/layout.html", name))
	}
}

// must stops the program: what is embedded is part of it.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

func kindOf(name string) string {
	if k := mime.TypeByExtension(path.Ext(name)); k != "" {
		return k
	}
	return "text/plain; charset=utf-8"
}

func squeeze(b []byte) []byte {
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	must(err)
	_, err = z.Write(b)
	must(err)
	must(z.Close())
	return out.Bytes()
}

func (p *pages) template(view string) (*template.Template, error) {
	t := p.views[view]
	if t == nil {
		return nil, fmt.Errorf("there is no template %q", view)
	}
	return t, nil
}

// words are the functions of templates.
var words = template.FuncMap{
	"bytes":   func(v float64) string { return unit.Format(v, unit.Byte) },
	"seconds": func(v float64) string { return unit.Format(v, unit.Second) },
	"count":   func(v float64) string { return unit.Format(v, unit.Count) },
	"rate":    func(v float64) string { return unit.Format(v, unit.PerSecond) },
	"share":   percent,
	"when":    func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
	"shown":   func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") },
	"plural":  plural,
}

// percent writes a share: whole per cents, more digits only below ten.
func percent(v float64) string {
	if v < 0.0995 {
		return fmt.Sprintf("%.1f %%", v*100)
	}
	return fmt.Sprintf("%.0f %%", v*100)
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
