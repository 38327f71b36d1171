package web

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"headroom/host"
	"headroom/testkit/need"
	"headroom/web/auth"
)

// attack is a page of somebody else that tries all it can against a server at
// which the browser is logged in. It notes in "got" what it could read.
const attack = `<!doctype html><title>attack</title><body><script>
const target = %q, got = [], waits = [];
const note = (what) => (v) => { got.push(what + ": " + v); };
for (const path of ["/api/v1/ingest", "/api/v1/plans", "/api/v1/plans/12345678/apply", "/logout", "/form"]) {
  for (const mode of ["no-cors", "cors"]) {
    waits.push(fetch(target + path, {method: "POST", mode, credentials: "include", headers: {"Content-Type": "text/plain"},
      body: '{"name":"attack","value":1}'}).then((r) => { if (r.type !== "opaque") note(path)(r.status); }, () => {}));
  }
  waits.push(fetch(target + path, {method: "DELETE", credentials: "include"}).then((r) => note(path)(r.status), () => {}));
  const frame = document.createElement("iframe"); frame.name = "f" + got.length + path; document.body.append(frame);
  const form = document.createElement("form"); form.method = "POST"; form.action = target + path; form.target = frame.name;
  form.enctype = "text/plain"; form.innerHTML = '<input name=\'{"name":"attack","value":1,"x":"\' value=\'"}\'>';
  document.body.append(form); form.submit();
}
for (const path of ["/api/v1/status", "/api/v1/live", "/metrics", "/secret"]) {
  waits.push(fetch(target + path, {credentials: "include"}).then((r) => r.text()).then(note(path), () => {}));
}
waits.push(new Promise((done) => { const s = document.createElement("script"); s.src = target + "/secret.js";
  s.onload = () => { note("script")(String(window.secret)); done(); }; s.onerror = done; document.body.append(s); }));
waits.push(new Promise((done) => { const e = new EventSource(target + "/api/v1/live", {withCredentials: true});
  e.onopen = () => { note("events")("open"); e.close(); done(); }; e.onerror = () => { e.close(); done(); }; }));
waits.push(new Promise((done) => { const f = document.createElement("iframe"); f.src = target + "/secret"; f.onload = done;
  window.onmessage = (m) => note("frame")(m.data); document.body.append(f); }));
Promise.allSettled(waits).then(() => setTimeout(() => { document.title = "done " + got.join("; "); }, 500));
</script>`

// TestPagesOfOthersInARealBrowser: whatever a page of another site or of
// another port does in a browser that is logged in, nothing reaches the
// machine and nothing is read. (P24)
func TestPagesOfOthersInARealBrowser(t *testing.T) {
	need.Have(t, "chromium")
	program, err := host.FindProgram("chromium")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var posts []string
	s := start(t, func(o *Options) {
		o.Pages = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodGet {
				mu.Lock()
				posts = append(posts, r.Method+" "+r.URL.Path)
				mu.Unlock()
			}
			switch {
			case strings.HasSuffix(r.URL.Path, ".js"):
				w.Header().Set("Content-Type", "text/javascript")
				fmt.Fprint(w, `window.secret = "leaked"`)
			default:
				w.Header().Set("Content-Type", "text/html")
				fmt.Fprint(w, `<!doctype html><title>mine</title><script>document.title = "inline"</script><script src="/frame.js"></script>`)
			}
		})
	})
	port := s.URL()[strings.LastIndex(s.URL(), ":")+1:]
	evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, attack, s.URL())
	}))
	defer evil.Close()
	evilPort := evil.URL[strings.LastIndex(evil.URL, ":")+1:]

	tab := chrome(t, program)
	link, err := LoginLink(s.o.Sessions, s.URL(), auth.Read, auth.Change)
	if err != nil {
		t.Fatal(err)
	}
	title := func(url, part string) string {
		t.Helper()
		if err := chromedp.Do(tab, chromedp.Navigate(url)); err != nil {
			t.Fatalf("%s: %v", url, err)
		}
		got := ""
		need.Eventually(t, 40*time.Second, url+" has the title "+part, func() bool {
			now, err := chromedp.Run(tab, chromedp.Title()) // fails while the page leads on
			got = now
			return err == nil && strings.Contains(now, part)
		})
		return got
	}
	title(link, "mine") // the link leads on to the page; its inline script does not run
	for _, origin := range []string{"http://evil.example:" + evilPort, "http://127.0.0.1:" + evilPort} {
		if got := title(origin+"/", "done"); got != "done" {
			t.Errorf("%s could read: %s", origin, got)
		}
	}
	mu.Lock()
	if len(posts) > 0 {
		t.Errorf("reached the pages: %v", posts)
	}
	mu.Unlock()
	if err := chromedp.Do(tab, chromedp.Navigate("http://evil.example:"+port+"/secret")); err != nil {
		t.Fatal(err)
	}
	text, err := chromedp.Run(tab, chromedp.Text("body"))
	if err != nil {
		t.Fatal(err)
	}
	has(t, text, "does not answer to the name") // a name that was made to lead here
	if got := title(s.URL()+"/still", "mine"); got != "mine" {
		t.Errorf("after all that: %q, want to be logged in still", got)
	}
	if st, err := s.o.API.Queue.Status(t.Context()); err != nil || st.Messages != 0 {
		t.Errorf("%d batches were taken (%v)", st.Messages, err)
	}
}

// chrome starts a browser for which evil.example is this machine.
func chrome(t *testing.T, program string) context.Context {
	t.Helper()
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.UserDataDir(filepath.Join(t.TempDir(), "profile")), chromedp.Flag("host-resolver-rules", "MAP evil.example 127.0.0.1"),
		chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-component-update", true))
	alloc, stopAlloc := chromedp.NewExecAllocator(context.Background(), opts...)
	tab, stopTab := chromedp.NewContext(alloc)
	t.Cleanup(func() { stopTab(); stopAlloc() })
	return tab
}
