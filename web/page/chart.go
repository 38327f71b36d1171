package page

import (
	"encoding/json"
	"strings"
)

// Chart declares one chart; what it shows is asked by the browser.
type Chart struct {
	Title string   `json:"title"`
	Help  string   `json:"-"`
	Unit  string   `json:"unit"` // bytes, bytes/s, seconds, ratio, count, count/s
	Stack bool     `json:"stack,omitempty"`
	Max   *float64 `json:"max,omitempty"` // the scale reaches at least this far
	Lines []Line   `json:"lines"`
	Empty string   `json:"empty,omitempty"` // what to say where there is nothing
}

// Line is one query of a chart, which may give several lines.
type Line struct {
	Match    string   `json:"match"`               // selector
	Over     string   `json:"over,omitempty"`      // a second selector to divide by
	OverFunc string   `json:"over_func,omitempty"` // of Over
	OverBy   []string `json:"over_by,omitempty"`   // labels of By that Over has, too
	Func     string   `json:"func"`                // as store.Query.Func
	By       []string `json:"by,omitempty"`
	Agg      string   `json:"agg,omitempty"`
	Top      int      `json:"top,omitempty"`
	Label    string   `json:"label,omitempty"` // with {label} filled in
	Scale    float64  `json:"scale,omitempty"`
	Rest     bool     `json:"rest,omitempty"` // show 1 minus the value
}

// JSON is the declaration as the page carries it.
func (c Chart) JSON() (string, error) {
	b, err := json.Marshal(c)
	return string(b), err
}

// one is a scale that reaches to 100 %.
var one = new(1.0)

// scope is the labels that all charts of a view ask for: the host, the server.
type scope []string

func hostScope(host string) scope { return scope{"host=" + quote(host)} }

func (s scope) server(name string) scope {
	return append(s[:len(s):len(s)], "server="+quote(name))
}

var quoter = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// quote writes a value as selectors take it.
func quote(value string) string { return `"` + quoter.Replace(value) + `"` }

// sel writes a selector: name may have conditions in braces already.
func (s scope) sel(name string) string {
	name, more, _ := strings.Cut(strings.TrimSuffix(name, "}"), "{")
	all := s[:len(s):len(s)]
	if more != "" {
		all = append(all, more)
	}
	if len(all) == 0 {
		return name
	}
	return name + "{" + strings.Join(all, ",") + "}"
}

// rate is a line of how fast a counter rises, summed over all but the labels by.
func (s scope) rate(label, name string, by ...string) Line {
	return Line{Match: s.sel(name), Func: "rate", By: by, Agg: "sum", Label: label}
}

// gauge is a line of the mean of a gauge, summed over all but the labels by.
func (s scope) gauge(label, name string, by ...string) Line {
	return Line{Match: s.sel(name), Func: "avg", By: by, Agg: "sum", Label: label}
}

// overRate divides by the rate of a counter with the same labels.
func (l Line) overRate(s scope, name string) Line {
	l.Over, l.OverFunc, l.OverBy = s.sel(name), "rate", l.By
	return l
}

// overGauge divides all lines by one gauge.
func (l Line) overGauge(s scope, name string) Line {
	l.Over, l.OverFunc = s.sel(name), "avg"
	return l
}

// overEach divides each line by the gauge with the same labels.
func (l Line) overEach(s scope, name string) Line {
	l = l.overGauge(s, name)
	l.OverBy = l.By
	return l
}

func (l Line) top(n int) Line { l.Top = n; return l }

// rest turns a share that is free into one that is used.
func (l Line) rest() Line { l.Rest = true; return l }

func (l Line) max() Line { l.Func, l.Agg = "max", "max"; return l }
