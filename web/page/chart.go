package page

import (
	"encoding/json"
	"fmt"
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
	Empty string   `json:"empty,omitempty"` // what to say where there is nothing, and that is fine
}

// Line is one query of a chart, which may give several lines.
type Line struct {
	Match string   `json:"match"`          // selector
	Over  string   `json:"over,omitempty"` // a second selector to divide by
	Func  string   `json:"func"`           // as store.Query.Func
	By    []string `json:"by,omitempty"`
	Agg   string   `json:"agg,omitempty"`
	Top   int      `json:"top,omitempty"`
	Label string   `json:"label,omitempty"` // with {label} filled in
	Scale float64  `json:"scale,omitempty"`
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

func hostScope(host string) scope { return scope{fmt.Sprintf("host=%q", host)} }

func (s scope) server(name string) scope {
	return append(s[:len(s):len(s)], fmt.Sprintf("server=%q", name))
}

// sel writes a selector for a metric and further conditions.
func (s scope) sel(name string, more ...string) string {
	all := append(s[:len(s):len(s)], more...)
	if len(all) == 0 {
		return name
	}
	return name + "{" + strings.Join(all, ",") + "}"
}
