// Package metric says what a number over time is: its definition, the series
// it belongs to, a sample of it, the collector that reads it, and the batch in
// which samples travel from the machine to the store.
//
// Names are in Prometheus style and end in their unit; units are base units
// (seconds, bytes, ratio 0–1, counts). Counters travel as the counters that
// the source has: rates are computed when they are asked for, so that a
// missed round costs resolution and nothing else.
package metric

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Kind is how a metric's values relate over time.
type Kind string

// A gauge may go up and down; a counter only grows, and starts at 0 again when
// its source restarts.
const (
	Gauge   Kind = "gauge"
	Counter Kind = "counter"
)

// Units that a definition may have.
const (
	Seconds = "seconds"
	Bytes   = "bytes"
	Ratio   = "ratio" // 0 to 1
	Count   = "count" // of what the name says
	Info    = "info"  // always 1; the labels carry the text
)

// Def declares one metric, once, for collection, documents and pages.
type Def struct {
	Name   string // host_disk_read_bytes_total; stable for ever
	Help   string // one sentence
	Unit   string // one of the units above
	Kind   Kind
	Labels []string // what the collector gives, in this order; host and server are added by who runs it
	Source string   // the file, view or page the figure comes from: "/proc/diskstats field 6"
}

var (
	nameForm  = regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`)
	labelForm = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)
)

// Check returns what is wrong with a definition, nil if nothing is.
func (d *Def) Check() error {
	base := strings.TrimSuffix(d.Name, "_total")
	switch {
	case !nameForm.MatchString(d.Name):
		return fmt.Errorf("metric %q: not a name in lower case with single underscores", d.Name)
	case d.Help == "" || d.Source == "":
		return fmt.Errorf("metric %s: help or source is missing", d.Name)
	case (d.Kind == Counter) != (base != d.Name):
		return fmt.Errorf("metric %s: counters, and only they, end in _total", d.Name)
	case d.Kind != Gauge && d.Kind != Counter:
		return fmt.Errorf("metric %s: kind %q is neither gauge nor counter", d.Name, d.Kind)
	case !slices.Contains([]string{Seconds, Bytes, Ratio, Count, Info}, d.Unit):
		return fmt.Errorf("metric %s: unknown unit %q", d.Name, d.Unit)
	case d.Unit != Count && !strings.HasSuffix(base, "_"+d.Unit):
		return fmt.Errorf("metric %s: a name of unit %s ends in _%s", d.Name, d.Unit, d.Unit)
	}
	for _, l := range d.Labels {
		if !labelForm.MatchString(l) {
			return fmt.Errorf("metric %s: %q is not a label name", d.Name, l)
		}
	}
	return nil
}
