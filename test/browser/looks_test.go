package browser

import (
	"context"
	"math"
	"testing"
)

var everyPage = []string{"/", "/host", "/disks", "/postgres", "/tables", "/queries", "/traffic", "/queue", "/findings", "/lab", "/journal"}

func testLight(t *testing.T, s *site, chrome context.Context) {
	b := s.login(t, chrome, "/")
	const ground = "getComputedStyle(document.body).backgroundColor"
	b.looks(1440, 900, "light")
	b.open(s.url + "/queue")
	light := js[string](b, ground)
	b.looks(1440, 900, "dark")
	dark := js[string](b, ground)
	if light == dark {
		t.Errorf("the system's wish for dark changes nothing: %s", light)
	}
	js[any](b, "(document.querySelector('#theme').click(), document.querySelector('#theme').click())") // dark, light
	if now := js[string](b, ground); now != light {
		t.Errorf("the switch says light and the ground is %s, want %s", now, light)
	}
	b.open(s.url + "/lab")
	if now := js[string](b, ground); now != light {
		t.Errorf("the next page forgot the switch: %s", now)
	}
	everywhere(b, s, 1440)
	b.quiet()
}

func testPhone(t *testing.T, s *site, chrome context.Context) { testDark(t, s, chrome, 390) }
func testWall(t *testing.T, s *site, chrome context.Context)  { testDark(t, s, chrome, 3840) }

func testDark(t *testing.T, s *site, chrome context.Context, width int64) {
	b := newTab(t, chrome)
	b.looks(width, 844, "dark")
	b = s.loginIn(b, "/")
	everywhere(b, s, width)
	b.quiet()
}

// everywhere looks at every page: it fits into the width, and its texts can be
// read.
func everywhere(b *tab, s *site, width int64) {
	b.t.Helper()
	for _, path := range everyPage {
		b.open(s.url + path)
		b.until("document.readyState === 'complete' && [...document.querySelectorAll('[data-part]')].every(p => p.childElementCount)")
		if wide := js[int64](b, "document.documentElement.scrollWidth"); wide > width {
			b.t.Errorf("%s at %d px is %d px wide", path, width, wide)
		}
		js[any](b, "document.querySelectorAll('details').forEach(d => d.open = true)")
		if low := js[[]string](b, contrasts); len(low) > 0 {
			b.t.Errorf("%s at %d px: too little contrast: %q", path, width, low)
		}
	}
}

// contrasts lists texts whose colour and ground are closer than WCAG AA takes.
const contrasts = `(() => {
  const rgb = s => { const m = /rgba?\(([^)]+)\)/.exec(s); return m ? m[1].split(',').map(Number) : null; };
  const lum = c => { const f = c.slice(0, 3).map(v => (v /= 255) <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4); return .2126 * f[0] + .7152 * f[1] + .0722 * f[2]; };
  const ground = e => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor); if (c && (c.length < 4 || c[3] > .5)) return c; } return [255, 255, 255]; };
  const low = new Set();
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let n; (n = walk.nextNode());) {
    const e = n.parentElement, st = getComputedStyle(e);
    if (!n.textContent.trim() || !e.offsetParent || e.closest('.stale,:disabled,script,[aria-pressed=false]')) continue;
    const a = lum(rgb(st.color)), b = lum(ground(e)), ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    const large = parseFloat(st.fontSize) >= 24 || parseFloat(st.fontSize) >= 18.66 && +st.fontWeight >= 700;
    if (ratio < (large ? 3 : 4.5)) low.add(ratio.toFixed(2) + ' ' + e.tagName + '.' + e.className + ' ' + n.textContent.trim().slice(0, 30));
  }
  return [...low];
})()`

// history sends two weeks of minutes of a host web1.
func (s *site) history() {
	host := `"labels":{"host":"web1"`
	for _, mode := range []string{"idle", "user", "system", "iowait"} {
		s.weeks(`"name":"host_cpu_seconds_total",`+host+`,"mode":"`+mode+`"}`, func(m int) float64 { return float64(m) * 15 })
	}
	s.weeks(`"name":"host_cpus",`+host+`}`, func(int) float64 { return 4 })
	s.weeks(`"name":"host_boot_time_seconds",`+host+`}`, func(int) float64 { return 1.79e9 })
	s.weeks(`"name":"host_memory_total_bytes",`+host+`}`, func(int) float64 { return 8 << 30 })
	s.weeks(`"name":"host_memory_available_bytes",`+host+`}`, func(m int) float64 { return (4 + math.Sin(float64(m)/229)) * (1 << 30) })
	disk := `"labels":{"host":"web1","mount":"/var","device":"/dev/vdb","fstype":"ext4"}`
	s.weeks(`"name":"host_filesystem_size_bytes",`+disk, func(int) float64 { return 100e9 })
	s.weeks(`"name":"host_filesystem_available_bytes",`+disk, func(m int) float64 { return 100e9 - 40e9 - float64(m)/1440*3e9 }) // 3 GB a day, 82 % at the end
}

// Two weeks of minutes: one page load stays small, forecasts are made, and the
// figures are told (never asserted: machines differ).
func testWeeks(t *testing.T, s *site, chrome context.Context) {
	b := s.login(t, chrome, "/")
	b.until(drawn)
	b.until("fetch('/api/v1/query?match=host_filesystem_size_bytes{host=%22web1%22}&from=-13d&step=86400').then(r => r.json()).then(f => window.there = f.lines.length > 0 && f.lines[0].values.filter(v => v).length > 12), window.there")
	b.open(s.url + "/?host=web1&from=-14d&to=now")
	b.until("charts.all[0].u")
	took := js[float64](b, "performance.now()")
	b.until(drawn)
	b.until("document.querySelector('[data-part=left] table')")
	size := js[float64](b, "performance.getEntries().filter(e => e.transferSize).reduce((n, e) => n + e.transferSize, 0)")
	t.Logf("two weeks of minutes: first chart within %.0f ms of the click (looked at every 50 ms), %.0f kB in all", took, size/1000)
	if size > 300e3 {
		t.Errorf("the page took %.0f kB, want under 300", size/1000)
	}
	row := `[...document.querySelectorAll('[data-part=left] tr')].find(r => r.textContent.includes('/var'))`
	b.until(row)
	text := js[string](b, row+".textContent")
	if days := js[float64](b, `+(/full in (\d+) days/.exec(`+row+`.textContent) || [0, -1])[1]`); math.Abs(days-6) > 1 {
		t.Errorf("3 GB a day into 18: want about 6 days: %s", text)
	}
	b.quiet()
}
