package browser

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"headroom/change"
	"headroom/cli"
	"headroom/host"
)

// TestMain lets this program be the guard of the changes that it applies.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "guard" {
		os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

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
	b.cutOff(s)
	b.quiet("Failed to load resource") // the refusal
}

// cutOff keeps a change that may cut off, which nobody from outside can vouch
// for here: only who says so keeps it.
func (b *tab) cutOff(s *site) {
	b.t.Helper()
	file := filepath.Join(s.dirs.Config, "cut")
	id := b.applyCutOff(s, file)
	b.open(s.url + "/journal/" + id)
	b.until("document.querySelector('[data-part=awaited]')")
	if text := js[string](b, "document.querySelector('[data-part=awaited]').innerText"); !containsAll(text, "Taken back by itself at", "a new connection from outside to TCP port", "not seen yet", "Log in once more") {
		b.t.Errorf("an unconfirmed change: %s", text)
	}
	form := "document.querySelector('form.consent')"
	js[any](b, "document.querySelector('[data-do=confirm]').click()")
	keep := func() {
		js[any](b, `(f => { f.value = `+quoted(id)+`; f.dispatchEvent(new Event('input')); f.form.requestSubmit(); })(document.querySelector('form.consent input[name=confirm]'))`)
	}
	keep()
	b.until(form + ".textContent.includes('none was seen')")
	js[any](b, "("+form+".querySelector('input[name=unseen]').click(), "+form+".querySelector('button').click())")
	b.until(form + ".textContent.includes('is applied')")
	b.until("document.querySelector('[data-part=awaited]').textContent.includes('It waits no more: it is applied')")
	b.open(s.url + "/journal/" + id)
	js[any](b, "document.querySelector('[data-do=revert]').click()")
	keep()
	b.until(form + ".textContent.includes('is reverted')")
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		b.t.Errorf("taken back, and the file is still there: %v", err)
	}
}

// applyCutOff applies a change that may cut off, for all that is known of it,
// and is a file.
func (b *tab) applyCutOff(s *site, file string) string {
	b.t.Helper()
	l := host.Open(host.Options{})
	defer l.Close()
	p, err := change.Prepare(b.t.Context(), l, change.Change{Spec: change.Spec{ID: "test.cut"}, Subject: "a file", Risk: change.RiskHigh, CutsOff: true, Confirm: 10 * time.Minute,
		Steps: change.Steps{change.File{Path: file, Content: "x"}}})
	var text bytes.Buffer
	if err == nil {
		err = p.Save(&text)
	}
	name := p.Hash[:8]
	if err == nil {
		err = os.WriteFile(filepath.Join(s.dirs.State, "plans", name+".json"), text.Bytes(), 0o600)
	}
	if err != nil {
		b.t.Fatal(err)
	}
	return js[string](b, "api.post('plans/"+name+"/apply', {confirm: "+quoted(name)+"}).then(r => r.state === 'awaiting' && r.confirm_port ? r.id : JSON.stringify(r))")
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
