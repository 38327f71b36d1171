package page

import (
	"fmt"
	"strings"
	"time"

	"headroom/check"
)

// overviewData is the first page.
type overviewData struct {
	*view
	Charts []Chart
}

func (p *pages) overview(v *view) (string, bool, any) {
	h := hostScope(v.Host)
	charts := []Chart{
		cpuChart(h),
		{Title: "Waiting", Help: "share of the time in which some task waited for CPU, memory or disk", Unit: "ratio",
			Lines: []Line{h.rate("{resource}", `host_pressure_waiting_seconds_total{tasks="some"}`, "resource")}},
		memoryChart(h),
		{Title: "Disk time", Help: "share of the time in which a disk had something to do", Unit: "ratio", Max: one,
			Lines: []Line{h.rate("{device}", "host_disk_busy_seconds_total", "device").top(8)}},
		networkChart(h),
	}
	for _, s := range v.Servers() {
		if len(charts) > 8 {
			break
		}
		charts = append(charts, transactionsChart(h.server(s.Name), "Transactions · "+s.Name))
	}
	return "overview", true, overviewData{v, charts}
}

// health is the sentence at the top.
type health struct {
	Level string // good, warn, bad, unknown
	Text  string
}

// Health says in a sentence whether all is well, the worst first.
func (d overviewData) Health() health {
	var parts []string
	level := "good"
	raise := func(to string) {
		if rankOf[to] > rankOf[level] {
			level = to
		}
	}
	count := map[check.Severity]int{}
	unknown := 0
	for _, f := range d.Findings() {
		count[f.Severity]++
	}
	if n := count[check.Danger]; n > 0 {
		raise("bad")
		parts = append(parts, plural(n, "danger", "dangers"))
	}
	short, first := map[string]int{}, map[string]string{}
	for _, r := range d.Resources() {
		if l := r.Level(); short[l] == 0 {
			first[l] = fmt.Sprintf(" (%s %s)", strings.TrimSpace(r.Name+" "+r.What), percent(r.Hour))
		}
		short[r.Level()]++
	}
	if n := short["bad"]; n > 0 {
		raise("bad")
		parts = append(parts, plural(n, "resource almost used up", "resources almost used up")+first["bad"])
	}
	if n := count[check.Warning]; n > 0 {
		raise("warn")
		parts = append(parts, plural(n, "warning", "warnings"))
	}
	if n := short["warn"]; n > 0 {
		raise("warn")
		parts = append(parts, plural(n, "resource runs short", "resources run short")+first["warn"])
	}
	if why := d.silent(); why != "" {
		raise("unknown")
		parts = append(parts, why)
	}
	if list := d.silentHosts(); len(list) > 0 && d.Own() {
		raise("warn")
		parts = append(parts, plural(len(list), "host is silent", "hosts are silent")+": "+strings.Join(list[:min(3, len(list))], ", "))
	}
	looked := false
	for _, i := range d.inspections() {
		looked = true
		unknown += len(i.Outcome.NotChecked)
	}
	switch {
	case !looked && d.Own():
		raise("unknown")
		parts = append(parts, "the first checks are under way")
	case !looked:
		raise("unknown")
		_, _, err := d.p.Parts.FindingsOf(d.Host)
		parts = append(parts, "no check has told anything")
		if err != nil {
			parts[len(parts)-1] = said(err)
		}
	case level == "good":
		parts = append(parts, "nothing found that needs you")
	}
	text := map[string]string{"good": "Healthy", "warn": "Needs attention", "bad": "In danger", "unknown": "Cannot be told"}[level] + ": " + strings.Join(parts, ", ")
	if unknown > 0 {
		text += fmt.Sprintf("; %s could not be answered", plural(unknown, "question", "questions"))
	}
	return health{level, text + "."}
}

var rankOf = map[string]int{"good": 0, "unknown": 1, "warn": 2, "bad": 3}

// silent says whether samples of the host stopped.
func (d overviewData) silent() string {
	if since := d.Silent(); since != "" {
		return "silent since " + since + ", what it told before may not be so any more"
	}
	if why := d.Away(); why != "" {
		return "the store cannot be asked (" + why + ")"
	}
	for _, h := range d.Hosts() {
		if h.Name != d.Host {
			continue
		}
		if h.Last.IsZero() {
			return "no sample is stored yet"
		}
		if age := d.p.now().Sub(h.Last); age > 3*time.Minute {
			return "no samples for " + span(age)
		}
		return ""
	}
	return "no samples of " + d.Host
}

// Resources is what is left, the scarcest first.
func (d overviewData) Resources() []resource { return d.resources() }

// Worst are the findings that matter most.
func (d overviewData) Worst() []finding {
	all := d.Findings()
	return all[:min(5, len(all))]
}

// Others is how many resources are not among the scarcest shown.
func (d overviewData) Others() int { return max(0, len(d.Resources())-8) }

// Looked says whether the checks were put at least once.
func (d overviewData) Looked() bool { return len(d.inspections()) > 0 }

// More is how many findings are not among the worst.
func (d overviewData) More() int { return max(0, len(d.Findings())-5) }

// Seen says how long ago a host spoke last.
func (d overviewData) Seen(l place) string {
	if l.Last.IsZero() {
		return "not yet"
	}
	age := d.p.now().Sub(l.Last)
	if age < time.Minute {
		return "now"
	}
	return span(age) + " ago"
}
