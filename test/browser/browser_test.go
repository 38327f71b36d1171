// Package browser tries the pages in a real Chromium, against a whole `up`
// with its store, queue, collectors and a PostgreSQL server that it watches.
package browser

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"headroom/watch"
)

// drawn says that charts are there and the first ones show something.
const drawn = `typeof charts !== 'undefined' && charts.all.length && charts.all.slice(0, 2).every(c => c.u || c.el.querySelector('.gap')) && !document.querySelector('[aria-busy]')`

func TestPages(t *testing.T) {
	s := startSite(t)
	chrome := chromium(t)
	s.busy("report", `select pg_sleep(300)`)
	s.ready(t)
	s.history()
	type one struct {
		name string
		run  func(*testing.T, *site, context.Context)
	}
	t.Run("together", func(t *testing.T) {
		for _, c := range []one{{"login", testLogin}, {"live", testLive}, {"first", testFirst}, {"weeks", testWeeks}, {"zoom", testZoom}, {"keys", testKeys}, {"gaps", testGaps}, {"sessions", testSessions}, {"phone", testPhone}, {"wall", testWall}, {"light", testLight}, {"plan", testPlan}, {"attacks", testAttacks}} {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				c.run(t, s, chrome)
			})
		}
	})
	for _, c := range []one{{"text", testHostileText}, {"away", testAway}} {
		t.Run(c.name, func(t *testing.T) { c.run(t, s, chrome) })
	}
}

// testAway takes the store away: the page stays up, says so, and draws what
// comes live; when the store is back it says nothing more.
func testAway(t *testing.T, s *site, chrome context.Context) {
	b := s.login(t, chrome, "/")
	b.until(drawn)
	if err := syscall.Kill(s.store.PID(), syscall.SIGQUIT); err != nil {
		t.Fatal(err)
	}
	b.until("document.querySelector('#status').textContent.includes('samples wait in the queue')")
	b.open(s.url + "/host") // a page that never had an answer
	b.until("charts.all[0].orphan && charts.all[0].u && charts.all[0].data[0].length > 3")
	b.until("document.querySelector('#status').className === 'warn'")
	if text := js[string](b, "document.querySelector('#status').textContent"); !strings.Contains(text, "The store is away for") {
		t.Errorf("the status line: %s", text)
	}
	b.open(s.url + "/queue")
	b.until("document.querySelector('[data-part=state]').textContent.includes('not lost')")
	if err := s.store.Restart(context.Background()); err != nil {
		t.Fatal(err)
	}
	b.until("document.querySelector('#status').textContent.startsWith('Connected')")
	b.until("!document.querySelector('[data-part=state]').textContent.includes('not lost')")
	b.quiet("Failed to load resource") // that is how a browser tells of an answer that is an error
}

func testLogin(t *testing.T, s *site, chrome context.Context) {
	b := newTab(t, chrome)
	b.open(s.url + "/disks")
	b.until("location.pathname === '/login'")
	b.open(s.url + "/login?code=wrong")
	b.until("document.querySelector('form')")
	b.mu.Lock()
	b.troubles = nil // the wrong code is an error in its log
	b.mu.Unlock()
	link, err := watch.Link(s.dirs)
	if err != nil {
		t.Fatal(err)
	}
	b.open(link)
	b.until("location.pathname === '/' && document.querySelector('#main')")
	b.until("document.querySelector('#health') && !document.querySelector('#health').textContent.includes('Looking')")
	for _, e := range []string{"/host", "/disks", "/postgres", "/tables", "/queries", "/traffic", "/queue", "/findings", "/lab", "/journal"} {
		b.open(s.url + e)
		b.until("document.querySelector('h1') && document.querySelector('nav.views a[aria-current=page]')")
		b.until("[...document.querySelectorAll('[data-part]')].every(p => p.childElementCount)")
	}
	b.open(s.url + "/nothing")
	b.until("document.body.textContent.includes('There is no page')")
	for _, u := range b.asked {
		if !strings.HasPrefix(u, s.url+"/") && !strings.HasPrefix(u, "data:") {
			t.Errorf("a page asks %s", u)
		}
	}
	b.quiet("/nothing")
}

func testLive(t *testing.T, s *site, chrome context.Context) {
	b := s.login(t, chrome, "/")
	b.until(drawn)
	b.until("document.querySelector('#live').textContent === 'live'")
	b.until("charts.all[0].u && charts.all[0].data[0].length")
	// One a second, where a query has one in ten; a busy machine may leave some
	// out. Charts that what stands above pushes out of sight are not drawn live.
	b.until("(charts.all[0].el.scrollIntoView({block: 'center'}), (at => at.filter((x, i) => i && x - at[i - 1] <= 3).length > 2)(charts.all[0].data[0]))")
	if top := js[float64](b, "Math.max(...charts.all[0].stacked().slice(-1)[0])"); top > 1.3 {
		t.Errorf("the CPUs are busy to %.0f %%", top*100)
	}
	b.keys(" ")
	b.until("document.querySelector('#live').textContent === 'paused'")
	n := js[int](b, "charts.all[0].data[0].length")
	b.do(chromedp.Sleep(2_500_000_000))
	if now := js[int](b, "charts.all[0].data[0].length"); now != n {
		t.Errorf("%d points came while it was paused", now-n)
	}
	b.quiet()
}

// testFirst looks at a machine that was never heard of: its first samples are
// drawn when they come, not at the next query.
func testFirst(t *testing.T, s *site, chrome context.Context) {
	b := s.login(t, chrome, "/host?host=new1")
	b.until(drawn)
	b.until("charts.all[0].el.querySelector('.gap')")
	b.until("document.querySelector('#live').textContent === 'live'")
	js[any](b, "charts.all.forEach(c => { c.load = async () => null; })") // no query any more
	for i := range 3 {
		at := time.Now().UnixMilli()
		s.send(fmt.Sprintf(`{"name":"host_cpus","labels":{"host":"new1"},"points":[[%d,2]]}
{"name":"host_cpu_seconds_total","labels":{"host":"new1","mode":"user"},"points":[[%d,%d]]}`, at, at, 10+i))
		time.Sleep(1100 * time.Millisecond)
	}
	b.until("charts.all[0].u && charts.all[0].data[0].length")
	b.quiet()
}

func testZoom(t *testing.T, s *site, chrome context.Context) {
	b := s.login(t, chrome, "/host?host=web1&from=-2d&to=now")
	b.until(drawn)
	b.until("charts.all[0].u")
	before := js[string](b, "location.search")
	b.drag(`charts.all[0].u.over`, 0.3, 0.7)
	b.until("location.search !== " + quoted(before))
	q, err := url.ParseQuery(strings.TrimPrefix(js[string](b, "location.search"), "?"))
	if err != nil || !strings.HasSuffix(q.Get("from"), "Z") || !strings.HasSuffix(q.Get("to"), "Z") {
		t.Errorf("the address after a zoom: %v %v", q, err)
	}
	const same = `new Set(charts.all.filter(c => c.u && c.visible).map(c => Math.round(c.u.scales.x.min) + ' ' + Math.round(c.u.scales.x.max))).size === 1`
	b.until(drawn)
	if !js[bool](b, same) {
		t.Errorf("scales differ: %v", js[any](b, "charts.all.map(c => [c.spec.title, c.visible, !!c.u, c.due, c.u && c.u.scales.x.min, c.u && c.u.scales.x.max])"))
	}
	if w := js[float64](b, "charts.all[0].u.scales.x.max - charts.all[0].u.scales.x.min"); w < 17*3600 || w > 22*3600 {
		t.Errorf("40 %% of two days is %v s", w)
	}
	if text := js[string](b, "document.querySelector('#live').textContent"); text != "past" {
		t.Errorf("zoomed into the past the badge says %q", text)
	}
	b.hover(`charts.all[0].u.over`, 0.5)
	b.until("charts.all.filter(c => c.u && c.visible).every(c => c.u.cursor.left > 0)")
	zoomed := js[string](b, "location.href")
	other := s.login(t, chrome, strings.TrimPrefix(zoomed, s.url))
	other.until(drawn)
	other.until("charts.all[0].u")
	if w := js[float64](other, "charts.all[0].u.scales.x.max - charts.all[0].u.scales.x.min"); w < 17*3600 || w > 22*3600 {
		t.Errorf("somebody else sees %v s at the same address", w)
	}
	b.do(chromedp.NavigateBack())
	b.until("location.search === " + quoted(before))
	b.until("charts.all[0].u.scales.x.max - charts.all[0].u.scales.x.min > 170000")
	b.quiet()
}

func quoted(s string) string { return fmt.Sprintf("%q", s) }

// box is where an element is.
func (b *tab) box(expr string) (r struct{ X, Y, W, H float64 }) {
	b.t.Helper()
	return js[struct{ X, Y, W, H float64 }](b, "(e => { e.scrollIntoView({block: 'center'}); const r = e.getBoundingClientRect(); return {X: r.x, Y: r.y, W: r.width, H: r.height}; })("+expr+")")
}

func (b *tab) mouse(kind input.DispatchMouseEventType, x, y float64) {
	b.t.Helper()
	p := input.DispatchMouseEventParams{Type: kind, X: x, Y: y}
	if kind != "mouseMoved" {
		p.Button, p.ClickCount = "left", 1
	}
	b.do(chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, input.DispatchMouseEvent, p)
		return err
	}))
}

// drag draws over an element from one part of its width to another.
func (b *tab) drag(expr string, from, to float64) {
	b.t.Helper()
	r := b.box(expr)
	y := r.Y + r.H/2
	b.mouse("mouseMoved", r.X+r.W*from, y)
	b.mouse("mousePressed", r.X+r.W*from, y)
	b.mouse("mouseMoved", r.X+r.W*(from+to)/2, y)
	b.mouse("mouseMoved", r.X+r.W*to, y)
	b.mouse("mouseReleased", r.X+r.W*to, y)
}

func (b *tab) hover(expr string, at float64) {
	b.t.Helper()
	r := b.box(expr)
	b.mouse("mouseMoved", r.X+r.W*at, r.Y+r.H/2)
}

// press sends one key as a keyboard does: what takes it keeps it from the field
// that then has the focus.
func (b *tab) press(key string) {
	b.t.Helper()
	b.do(chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		if _, err := chromedp.Call(ctx, input.DispatchKeyEvent, input.DispatchKeyEventParams{Type: "keyDown", Key: key, Text: key}); err != nil {
			return err
		}
		_, err := chromedp.Call(ctx, input.DispatchKeyEvent, input.DispatchKeyEventParams{Type: "keyUp", Key: key})
		return err
	}))
}

func testKeys(t *testing.T, s *site, chrome context.Context) {
	b := s.login(t, chrome, "/")
	b.until(drawn)
	b.keys(kb.Tab)
	b.until("document.activeElement.className === 'skip' && document.activeElement.getBoundingClientRect().left >= 0")
	if outline := js[string](b, "getComputedStyle(document.activeElement).outlineStyle"); outline == "none" {
		t.Error("where the focus is cannot be seen")
	}
	b.press("/")
	b.until("document.activeElement.id === 'filter'")
	b.keys("network")
	b.until("[...document.querySelectorAll('figure.chart')].filter(f => f.offsetParent).map(f => f.chart.spec.title).join() === 'Network'")
	if q := js[string](b, "location.search"); !strings.Contains(q, "q=network") {
		t.Errorf("the filter is not in the address: %s", q)
	}
	b.keys(kb.Escape)
	b.keys("g")
	b.keys("d")
	b.until("location.pathname === '/disks'")
	b.until(drawn)
	b.keys("+")
	b.until("location.search.includes('from=-1800s')")
	b.keys("-")
	b.until("location.search.includes('from=-3600s')")
	b.keys(kb.ArrowLeft)
	b.until("location.search.includes('Z')")
	b.keys("0")
	b.until("location.search.includes('from=-1h') && location.search.includes('to=now')")
	b.keys("?")
	b.until("document.querySelector('dialog[open]')")
	b.keys(kb.Escape)
	b.until("!document.querySelector('dialog[open]')")
	b.quiet()
}

func testGaps(t *testing.T, s *site, chrome context.Context) {
	b := s.login(t, chrome, s.postgres())
	b.until(drawn)
	flush := `charts.all.find(c => c.spec.title === 'Time of a flush').el`
	b.do(chromedp.Func(func(context.Context, *chromedp.Target) error { return nil }))
	js[any](b, flush+".scrollIntoView()")
	b.until(flush + ".textContent.includes('track_wal_io_timing is off')")
	if n := js[int](b, flush+".querySelectorAll('canvas').length"); n != 0 {
		t.Error("a chart is drawn of what is not collected")
	}
	b.until("[...document.querySelectorAll('code')].some(c => c.textContent.includes('headroom plan postgres.setting track_wal_io_timing=on'))")
	b.quiet()
}

func testSessions(t *testing.T, s *site, chrome context.Context) {
	b := s.login(t, chrome, s.postgres())
	b.until("document.querySelector('[data-part=sessions]').textContent.includes('pg_sleep')")
	b.until("[...document.querySelectorAll('[data-part=sessions] td')].some(d => d.textContent === 'Timeout: PgSleep')")
	// The list renews itself and keeps how somebody sorted it.
	js[any](b, "document.querySelectorAll('[data-part=sessions] th button')[4].click()")
	was := js[string](b, "(window.mine = document.querySelector('[data-part=sessions] table'), document.querySelector('[data-part=sessions] th[aria-sort=descending]').textContent)")
	b.until("window.mine !== document.querySelector('[data-part=sessions] table')")
	b.until("document.querySelector('[data-part=sessions] th[aria-sort=descending]')?.textContent === " + quoted(was))
	b.open(s.url + "/tables?server=" + url.QueryEscape(s.server()))
	b.until("document.querySelector('[data-part=tables]').textContent.includes('public.things')")
	b.quiet()
}
