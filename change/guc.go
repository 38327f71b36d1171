package change

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// guc is how the server describes one setting in pg_settings.
type guc struct {
	name      string
	known     bool
	vartype   string // bool, integer, real, enum, string
	unit      string // of the base form: "8kB", "ms"; "" if none
	context   string // postmaster, sighup, …
	low, high string // range in base units
	choices   []string
	boot      string // built-in default
}

// magnitude is one unit that a value may be written in.
type magnitude struct {
	name string
	size float64 // in bytes or microseconds
}

// The units of the server, largest first.
var (
	memory = []magnitude{{"TB", 1 << 40}, {"GB", 1 << 30}, {"MB", 1 << 20}, {"kB", 1 << 10}, {"B", 1}}
	clock  = []magnitude{{"d", 86400e6}, {"h", 3600e6}, {"min", 60e6}, {"s", 1e6}, {"ms", 1e3}, {"us", 1}}
)

// base returns the units that fit a setting's own, and that unit's size.
func (g guc) base() (fits []magnitude, size float64) {
	word := strings.TrimLeft(g.unit, "0123456789")
	times := 1.0
	if n, err := strconv.ParseFloat(strings.TrimSuffix(g.unit, word), 64); err == nil {
		times = n
	}
	for _, family := range [][]magnitude{memory, clock} {
		for _, m := range family {
			if m.name == word {
				return family, m.size * times
			}
		}
	}
	return nil, 1
}

// shown writes a value in base units as the server's SHOW does.
func (g guc) shown(value string) string {
	if g.vartype != "integer" && g.vartype != "real" {
		return listForm(g.name, value)
	}
	v, err := strconv.ParseFloat(value, 64)
	if err != nil {
		return value
	}
	fits, size := g.base()
	style := byte('g')
	if g.vartype == "integer" {
		style = 'f'
	}
	form := strconv.FormatFloat(v, style, -1, 64)
	if v <= 0 {
		return form
	}
	for _, m := range fits {
		times := m.size / size
		in := v / times
		form = strconv.FormatFloat(in, style, -1, 64) + m.name
		if g.vartype == "integer" && times <= 1 || math.Abs(math.RoundToEven(in)/in-1) <= 1e-8 {
			break
		}
	}
	return form
}

// bound writes an end of the range exactly, in the setting's own unit.
func (g guc) bound(value string) string {
	word := strings.TrimLeft(g.unit, "0123456789")
	v, err := strconv.ParseFloat(value, 64)
	times, terr := strconv.ParseFloat(strings.TrimSuffix(g.unit, word), 64)
	if err != nil || terr != nil {
		return value + word
	}
	return strconv.FormatFloat(v*times, 'f', -1, 64) + word
}

// normal brings a value as a person writes it into the form of shown. known
// is false where the server's form cannot be told beforehand. The error is
// what the server would say.
func (g guc) normal(value string) (form string, known bool, err error) {
	switch g.vartype {
	case "bool":
		form, err := g.boolean(value)
		return form, err == nil, err
	case "integer", "real":
		form, err := g.figure(value)
		return form, err == nil, err
	case "enum":
		return g.choice(value)
	}
	if rewritten[g.name] {
		return "", false, nil
	}
	return listForm(g.name, value), true, nil
}

// rewritten are the text settings that the server spells in its own way.
var rewritten = map[string]bool{"datestyle": true, "timezone": true, "log_timezone": true, "client_encoding": true}

func (g guc) boolean(value string) (string, error) {
	v := strings.ToLower(value)
	for _, w := range []struct {
		word, form string
		least      int // letters that tell it apart
	}{{"true", "on", 1}, {"false", "off", 1}, {"yes", "on", 1}, {"no", "off", 1}, {"on", "on", 2}, {"off", "off", 2}, {"1", "on", 1}, {"0", "off", 1}} {
		if len(v) >= w.least && strings.HasPrefix(w.word, v) {
			return w.form, nil
		}
	}
	return "", fmt.Errorf("parameter %q requires a Boolean value", g.name)
}

func (g guc) choice(value string) (form string, known bool, err error) {
	if g.name == "wal_compression" && strings.EqualFold(value, "on") {
		return "pglz", true, nil // the one listed word that the server replaces
	}
	for _, c := range g.choices {
		if strings.EqualFold(c, value) {
			return c, true, nil
		}
	}
	// Some take further spellings that are not listed.
	if _, err := g.boolean(value); err == nil {
		return "", false, nil
	}
	return "", false, fmt.Errorf("invalid value for parameter %q: %q (available values: %s)", g.name, value, strings.Join(g.choices, ", "))
}

func (g guc) figure(value string) (string, error) {
	t := strings.TrimSpace(value)
	end := len(t)
	for end > 0 && (t[end-1] >= 'a' && t[end-1] <= 'z' || t[end-1] >= 'A' && t[end-1] <= 'Z') && !strings.HasPrefix(t, "0x") {
		end--
	}
	v, err := g.parse(strings.TrimSpace(t[:end]))
	if err != nil {
		return "", fmt.Errorf("invalid value for parameter %q: %q", g.name, value)
	}
	if word := t[end:]; word != "" {
		if v, err = g.convert(v, word); err != nil {
			return "", fmt.Errorf("invalid value for parameter %q: %q (%w)", g.name, value, err)
		}
	}
	if g.vartype == "integer" {
		v = math.RoundToEven(v)
	}
	low, err1 := strconv.ParseFloat(g.low, 64)
	high, err2 := strconv.ParseFloat(g.high, 64)
	if err1 == nil && v < low || err2 == nil && v > high {
		return "", fmt.Errorf("%s is outside the valid range for parameter %q (%s .. %s)", value, g.name, g.bound(g.low), g.bound(g.high))
	}
	return g.shown(strconv.FormatFloat(v, 'f', -1, 64)), nil
}

// parse reads a number as the server does: whole ones may be octal or
// hexadecimal, as in C.
func (g guc) parse(s string) (float64, error) {
	if strings.ContainsAny(s, "_pPnNiI") { // Go reads more than C does
		return 0, strconv.ErrSyntax
	}
	if g.vartype == "integer" && !strings.HasPrefix(s, "0b") && !strings.HasPrefix(s, "0o") {
		if n, err := strconv.ParseInt(s, 0, 64); err == nil {
			return float64(n), nil
		}
	}
	return strconv.ParseFloat(s, 64)
}

// convert brings v units of the given name into the setting's base unit; a
// fraction is rounded to whole units of the next smaller kind.
func (g guc) convert(v float64, word string) (float64, error) {
	fits, size := g.base()
	i := slices.IndexFunc(fits, func(m magnitude) bool { return m.name == word })
	if i < 0 {
		if fits == nil {
			return 0, fmt.Errorf("it takes no unit")
		}
		names := make([]string, len(fits))
		for i, m := range fits {
			names[i] = m.name
		}
		return 0, fmt.Errorf("valid units for this parameter are %s", strings.Join(names, ", "))
	}
	out := v * fits[i].size / size
	if i+1 < len(fits) {
		next := fits[i+1].size / size
		out = math.RoundToEven(out/next) * next
	}
	return out, nil
}
