//go:build screens

package browser

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"headroom/testkit/need"
)

// shots are the pages of which pictures are kept.
var shots = []struct{ name, path, ready string }{
	{"overview", "/?from=-15m&to=now", "document.querySelector('#health') && document.querySelector('table.left')"},
	{"host", "/host?from=-15m&to=now", ""},
	{"disks", "/disks?from=-15m&to=now", ""},
	{"postgres", "/postgres?from=-15m&to=now", "document.querySelector('#sessions table')"},
	{"tables", "/tables?from=-15m&to=now", "document.querySelector('[data-part=tables] table')"},
	{"queries", "/queries?from=-15m&to=now", "document.querySelector('[data-part=queries] table')"},
	{"traffic", "/traffic?from=-15m&to=now", ""},
	{"queue", "/queue?from=-15m&to=now", "document.querySelector('#room')"},
	{"findings", "/findings", "document.querySelector('article.finding')"},
	{"lab", "/lab", ""},
	{"journal", "/journal", ""},
}

// TestScreens makes the pictures of docs/screens of a running `headroom up`:
// HEADROOM_SCREENS is the folder, HEADROOM_SCREENS_LINK a fresh login link. It
// stands behind a build tag: it makes files and needs a server of the caller's.
func TestScreens(t *testing.T) {
	dir, link := os.Getenv("HEADROOM_SCREENS"), os.Getenv("HEADROOM_SCREENS_LINK")
	if dir == "" || link == "" {
		t.Fatal("HEADROOM_SCREENS and HEADROOM_SCREENS_LINK are not set; see docs/pages.md")
	}
	need.Have(t, "chromium")
	b := newTab(t, chromium(t))
	b.open(link)
	base := js[string](b, "location.origin")
	for _, kind := range []struct {
		name          string
		width, height int64
		scheme        string
	}{{"desktop-light", 1440, 900, "light"}, {"desktop-dark", 1440, 900, "dark"}, {"phone-light", 390, 844, "light"}, {"phone-dark", 390, 844, "dark"}} {
		b.looks(kind.width, kind.height, kind.scheme)
		for _, s := range shots {
			if only := os.Getenv("HEADROOM_SCREENS_ONLY"); only != "" && only != s.name {
				continue
			}
			b.open(base + s.path)
			b.until("document.readyState === 'complete' && !document.querySelector('figure.chart[aria-busy]') && [...document.querySelectorAll('figure.chart')].slice(0, 2).every(f => f.chart && (f.chart.u || f.querySelector('.gap')))")
			if s.ready != "" {
				b.until(s.ready)
			}
			b.do(chromedp.Sleep(700 * time.Millisecond))
			png, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
			if err != nil {
				t.Fatal(err)
			}
			if png, err = shrink(png); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, s.name+"-"+kind.name+".png"), png, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	b.quiet()
}
