package browser

import (
	"context"
	"testing"
)

// testPlan goes the whole way: finding, plan, typed id, applied, journal, mark,
// taken back.
func testPlan(t *testing.T, s *site, chrome context.Context) {
	b := s.login(t, chrome, "/findings")
	// Other servers on this machine may have it off, too.
	button := `[...document.querySelectorAll('button[data-plan]')].find(b => b.dataset.plan.includes('fsync=on') && b.dataset.server === ` + quoted(s.server()) + `)`
	b.untilReload(button)
	js[any](b, button+".click()")
	box := button + ".closest('[data-plan-box]')"
	b.until(box + ".querySelector('form.consent')")
	if got := s.setting("fsync"); got != "off" {
		t.Fatalf("a plan changed fsync to %s", got)
	}
	if text := js[string](b, box+".querySelector('.plan').innerText"); !containsAll(text, "fsync", "off", "on", "Risk", "Nothing was changed") {
		t.Errorf("the plan: %s", text)
	}
	// The wrong name does nothing.
	form, go_, field := box+".querySelector('form.consent')", box+".querySelector('form.consent button')", box+".querySelector('form.consent input')"
	typed := func(text string) {
		js[any](b, `(f => { f.value = `+quoted(text)+`; f.dispatchEvent(new Event('input')); })(`+field+`)`)
	}
	typed("yes")
	if !js[bool](b, go_+".disabled") {
		t.Error("a wrong id opens the button")
	}
	js[any](b, form+".requestSubmit()")
	id := js[string](b, form+".querySelector('code').textContent")
	typed(id)
	js[any](b, form+".requestSubmit()")
	b.until(form + ".textContent.includes('Done and verified')")
	if got := s.setting("fsync"); got != "on" {
		t.Errorf("applied, and fsync is %s", got)
	}
	b.open(s.url + "/journal")
	b.until("document.querySelector('td a[href^=\"/journal/\"]')")
	if text := js[string](b, "document.querySelector('tbody tr').innerText"); !containsAll(text, "fsync", "applied", "headroom revert") {
		t.Errorf("the journal: %s", text)
	}
	js[any](b, "document.querySelector('td a[href^=\"/journal/\"]').click()")
	b.until("document.querySelector('[data-do=revert]')")
	change := js[string](b, "location.pathname.split('/').pop()")
	b.markThere(s, change)
	b.open(s.url + "/journal/" + change)
	js[any](b, "document.querySelector('[data-do=revert]').click()")
	js[any](b, `(f => { f.value = `+quoted(change)+`; f.dispatchEvent(new Event('input')); f.form.requestSubmit(); })(document.querySelector('form.consent input'))`)
	b.until("document.querySelector('form.consent').textContent.includes('is reverted')")
	if got := s.setting("fsync"); got != "off" {
		t.Errorf("taken back, and fsync is %s", got)
	}
	b.quiet()
}

// markThere looks for the change's flag on a chart, which leads to its page.
func (b *tab) markThere(s *site, change string) {
	b.t.Helper()
	for range 25 {
		b.open(s.url + "/?from=-15m&to=now")
		b.until(drawn)
		b.until("charts.all[0].u")
		if js[bool](b, `(async () => { await new Promise(r => setTimeout(r, 800)); return [...document.querySelectorAll('.flag')].some(f => f.title.includes(`+quoted(change)+`)); })()`) {
			return
		}
	}
	b.t.Errorf("no chart has a mark of change %s", change)
}

// untilReload waits for an element of a page that does not renew itself.
func (b *tab) untilReload(expr string) {
	b.t.Helper()
	for range 30 {
		if js[bool](b, "!!("+expr+")") {
			return
		}
		js[any](b, "new Promise(r => setTimeout(r, 500))")
		b.do(reload)
	}
	b.until(expr)
}
