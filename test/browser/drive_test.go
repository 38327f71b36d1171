package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"headroom/host"
)

// chromium is one browser for all tests; each test has a profile of its own in it.
func chromium(t testing.TB) context.Context {
	t.Helper()
	program, err := host.FindProgram("chromium")
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "hr-browser-")
	if err != nil {
		t.Fatal(err)
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.UserDataDir(dir),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true), chromedp.Flag("no-first-run", true),
		chromedp.Flag("host-resolver-rules", "MAP *.test 127.0.0.1"), chromedp.WindowSize(1440, 900))
	ctx, stop := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, end := chromedp.NewContext(ctx)
	t.Cleanup(func() { end(); stop(); _ = os.RemoveAll(dir) })
	if err := chromedp.Do(ctx); err != nil {
		t.Fatal(err)
	}
	return ctx
}

// tab is a page in a profile of its own. What its console complains of, and
// what it asks of others than its own server, is remembered.
type tab struct {
	t   testing.TB
	ctx context.Context

	mu       sync.Mutex
	troubles []string
	asked    []string
}

func newTab(t testing.TB, browser context.Context) *tab {
	t.Helper()
	ctx, stop := chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
	ctx, cancel := context.WithTimeout(ctx, tabLimit)
	t.Cleanup(func() { cancel(); stop() })
	b := &tab{t: t, ctx: ctx}
	if err := chromedp.Listen(ctx, b.notice); err != nil {
		t.Fatal(err)
	}
	b.do(chromedp.Func(func(ctx context.Context, s *chromedp.Target) error {
		for _, enable := range []func() error{
			func() error { _, err := chromedp.Call(ctx, network.Enable, network.EnableParams{}); return err },
			func() error { _, err := chromedp.Call(ctx, log.Enable, struct{}{}); return err },
		} {
			if err := enable(); err != nil {
				return err
			}
		}
		return nil
	}))
	return b
}

func (b *tab) notice(ev any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := ev.(type) {
	case *runtime.EventExceptionThrown:
		b.troubles = append(b.troubles, "exception: "+fmt.Sprint(e.ExceptionDetails.Text, " ", describe(e.ExceptionDetails.Exception)))
	case *log.EventEntryAdded:
		if e.Entry.Level == "error" {
			b.troubles = append(b.troubles, fmt.Sprint(e.Entry.Source, ": ", e.Entry.Text, " ", e.Entry.URL))
		}
	case *network.EventRequestWillBeSent:
		b.asked = append(b.asked, e.Request.URL)
	}
}

func describe(o *runtime.RemoteObject) string {
	if o == nil {
		return ""
	}
	return o.Description
}

// quiet fails the test for what the console complained of, but for lines that
// hold one of the given words.
func (b *tab) quiet(but ...string) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
next:
	for _, s := range b.troubles {
		for _, w := range but {
			if strings.Contains(s, w) {
				continue next
			}
		}
		b.t.Errorf("the browser complains: %s", s)
	}
	b.troubles = nil
}

func (b *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, steps...); err != nil {
		b.t.Fatal(err)
	}
}

// open goes to an address and waits until it is loaded.
func (b *tab) open(url string) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, chromedp.Navigate(url)); err != nil {
		b.t.Fatalf("open %s: %v", url, err)
	}
}

// js evaluates an expression, a promise too.
func js[T any](b *tab, expr string) T {
	b.t.Helper()
	text, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](`(async () => JSON.stringify((await (`+expr+`)) ?? null))()`, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("%s: %v", expr, err)
	}
	var out T
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		b.t.Fatalf("%s: %v", expr, err)
	}
	return out
}

// Waits end when what they wait for is so. Their limits are for what never
// comes: a machine that does ten things at once is no fault of the page.
const (
	patience = 2 * time.Minute
	tabLimit = 10 * time.Minute
)

// until waits for an expression to hold.
func (b *tab) until(expr string) {
	b.t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		ok, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool](`!!(`+expr+`)`))
		if err == nil && ok {
			return
		}
	}
	b.t.Fatalf("not so within %s: %s\nat %s\n%.1500s", patience, expr, js[string](b, "location.href"), js[string](b, "document.body ? document.body.innerText : ''"))
}

func (b *tab) keys(text string) {
	b.t.Helper()
	b.do(chromedp.KeyEvent(text))
}

// looks sets the window's size and the colours that the system asks for.
func (b *tab) looks(width, height int64, scheme string) {
	b.t.Helper()
	b.do(chromedp.EmulateViewport(width, height), chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
			{Name: "prefers-color-scheme", Value: scheme}}})
		return err
	}))
}
