package browser

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

var reload = chromedp.Reload()

func containsAll(text string, parts ...string) bool {
	for _, p := range parts {
		if !strings.Contains(text, p) {
			return false
		}
	}
	return true
}

// testHostileText puts markup into all that is stored and shown: labels,
// names, statements, sessions, changes, results.
func testHostileText(t *testing.T, s *site, chrome context.Context) {
	label := fmt.Sprintf("%q", hostile)
	s.send(`{"name":"host_disk_in_flight","labels":{"host":"db1","device":` + label + `},"value":1}
{"name":"host_network_receive_drops_total","labels":{"host":"db1","interface":` + label + `},"value":1}
{"name":"host_filesystem_available_bytes","labels":{"host":"db1","mount":` + label + `,"fstype":"ext4","device":"x"},"value":1}
{"name":"host_filesystem_size_bytes","labels":{"host":"db1","mount":` + label + `,"fstype":"ext4","device":"x"},"value":2}
{"name":"host_boot_time_seconds","labels":{"host":` + label + `},"value":1}
{"name":"postgres_version_info","labels":{"host":"db1","server":` + label + `,"major":` + label + `},"value":1}
`)
	s.busy(`"><img src=x onerror="window.hacked=1">`, `select pg_sleep(300) as "><img src=x onerror=window.hacked=1>"`)
	s.sql(`create table "><img src=x onerror=window.hacked=1>" (x int)`)
	results := filepath.Join(s.dirs.State, "results")
	if err := os.MkdirAll(results, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(results, "20260101-hostile.json"), []byte(`{"format":"headroom-trial","name":`+label+`}`), 0o600); err != nil {
		t.Fatal(err)
	}
	b := s.login(t, chrome, "/")
	// A change whose value is markup, through plan, journal and marks.
	plan := js[map[string]any](b, `fetch('/api/v1/plans', {method: 'POST', body: JSON.stringify({change: "postgres.setting log_line_prefix='<img src=x onerror=window.hacked=1>%p '", server: `+quoted(s.server())+`})}).then(r => r.json())`)
	if id, ok := plan["id"].(string); ok {
		js[any](b, `fetch('/api/v1/plans/`+id+`/apply', {method: 'POST', body: JSON.stringify({confirm: `+quoted(id)+`})}).then(r => r.json())`)
	} else {
		t.Errorf("no plan: %v", plan)
	}
	paths := append([]string{"/?host=" + hostileURL, "/postgres?server=" + hostileURL, "/disks?q=" + hostileURL, "/x" + hostileURL, "/lab/20260101-hostile", "/?from=" + hostileURL}, everyPage...)
	for _, path := range paths {
		b.open(s.url + path)
		b.until("document.readyState === 'complete' && [...document.querySelectorAll('[data-part]')].every(p => p.childElementCount)")
		if path == "/postgres" {
			b.open(s.url + s.postgres())
			b.until("document.querySelector('[data-part=sessions]').textContent.includes('onerror')")
		}
		if path == "/disks" { // the test is worth nothing where the text is not shown
			b.until("[...document.querySelectorAll('.legend')].some(l => l.textContent.includes('onerror'))")
		}
		b.do(chromedp.Sleep(100_000_000))
		if js[bool](b, "!!window.hacked || !!document.querySelector('img, main script')") {
			t.Errorf("%s: what was stored ran, or became markup", path)
		}
	}
	b.open(s.url + "/journal")
	b.until("document.body.textContent.includes('onerror')")
	b.mu.Lock()
	for _, x := range b.troubles {
		if strings.Contains(x, "Content Security Policy") || strings.HasPrefix(x, "exception") {
			t.Errorf("the browser complains: %s", x)
		}
	}
	b.mu.Unlock()
}

const hostileURL = `%22%3E%3Cimg%20src=x%20onerror=window.hacked=1%3E`

// testAttacks opens pages of other origins, in the browser that is logged in,
// that try to act, to read, and to frame.
func testAttacks(t *testing.T, s *site, chrome context.Context) {
	b := s.login(t, chrome, "/findings")
	id := js[map[string]any](b, `fetch('/api/v1/plans', {method: 'POST', body: JSON.stringify({change: 'postgres.setting work_mem=77MB', server: `+quoted(s.server())+`})}).then(r => r.json())`)["id"].(string)
	was := s.setting("work_mem")
	port := s.url[strings.LastIndex(s.url, ":"):]
	evil := evilServer(t, s.url, id)
	for _, origin := range []string{"http://127.0.0.1" + evil, "http://evil.test" + evil} { // another port is the same site: cookies are sent
		b.open(origin + "/form")
		b.until("document.body.innerText.includes('another site') || location.pathname.includes('apply')")
		if text := js[string](b, "document.body.innerText"); !strings.Contains(text, "another site") {
			t.Errorf("a form of %s: %.200s", origin, text)
		}
		b.open(origin + "/fetch")
		b.until("window.results && window.results.length === 4")
		for _, r := range js[[]string](b, "window.results") {
			if !strings.HasSuffix(r, ": refused") && !strings.HasSuffix(r, ": opaque") {
				t.Errorf("%s: a script could %s", origin, r)
			}
		}
		b.mu.Lock()
		b.troubles = nil
		b.mu.Unlock()
		b.open(origin + "/frame")
		b.until("window.framed")
		b.mu.Lock()
		if said := strings.Join(b.troubles, "\n"); !strings.Contains(said, "frame-ancestors") && !strings.Contains(said, "X-Frame-Options") {
			t.Errorf("%s: nothing kept it from framing: %s", origin, said)
		}
		b.mu.Unlock()
	}
	b.open("http://rebind.test" + port + "/") // another name that leads here
	if text := js[string](b, "document.body.innerText"); !strings.Contains(text, "does not answer to the name") {
		t.Errorf("DNS rebinding: %.200s", text)
	}
	if now := s.setting("work_mem"); now != was {
		t.Errorf("work_mem was changed to %s from another site", now)
	}
	b.open(s.url + "/findings")
	b.until("document.querySelector('h1') && location.pathname === '/findings'") // logged in still
}

// evilServer serves the attackers' pages and returns ":port".
func evilServer(t *testing.T, target, id string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	page := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, strings.NewReplacer("TARGET", target, "ID", id).Replace(text))
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/form", page(`<form method=post enctype="text/plain" action="TARGET/api/v1/plans/ID/apply"><input name='{"confirm":"ID","accept":["' value='"]}'></form><script>document.forms[0].submit()</script>`))
	mux.HandleFunc("/fetch", page(`<script>
const tries = [['read', 'GET', '/api/v1/status', {}], ['apply', 'POST', '/api/v1/plans/ID/apply', {mode: 'no-cors', body: '{"confirm":"ID"}'}], ['apply as JSON', 'POST', '/api/v1/plans/ID/apply', {headers: {'Content-Type': 'application/json'}, body: '{"confirm":"ID"}'}], ['log out', 'POST', '/logout', {mode: 'no-cors'}]];
window.results = [];
for (const [name, method, path, more] of tries) fetch('TARGET' + path, {method, credentials: 'include', ...more}).then(r => results.push(name + ': ' + (r.type === 'opaque' ? 'opaque' : 'got ' + r.status)), () => results.push(name + ': refused'));
</script>`))
	mux.HandleFunc("/frame", page(`<iframe src="TARGET/findings"></iframe><script>
document.querySelector('iframe').onload = () => { window.framed = true; };
</script>`))
	server := &http.Server{Handler: mux}
	go func() { _ = server.Serve(l) }() // ends with Close
	t.Cleanup(func() { _ = server.Close() })
	return l.Addr().String()[strings.LastIndex(l.Addr().String(), ":"):]
}
