package store

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"headroom/fail"
)

// Forever is a time that does not end.
const Forever = time.Duration(math.MaxInt64)

const (
	day  = 24 * time.Hour
	year = 365 * day
)

// Retention is how long each resolution is kept.
type Retention struct{ Raw, Minute, Hour, Day time.Duration }

// DefaultRetention is raw:2d,1m:14d,1h:2y,1d:forever.
func DefaultRetention() Retention { return Retention{2 * day, 14 * day, 2 * year, Forever} }

func (r Retention) zero() bool { return r == Retention{} }

// ParseRetention reads a list such as 1m:14d,1h:2y,1d:forever; raw:2d may be
// in it. What is left out is as by default. Units are h, d, w and y (365 days).
// Errors: a coarser resolution that is kept for less time than a finer one;
// raw for less than two days, because a day's roll-up is made of its points.
func ParseRetention(text string) (Retention, error) {
	r := DefaultRetention()
	named := map[string]*time.Duration{"raw": &r.Raw, "1m": &r.Minute, "1h": &r.Hour, "1d": &r.Day}
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		name, span, _ := strings.Cut(part, ":")
		into := named[strings.TrimSpace(name)]
		d, err := parseSpan(strings.TrimSpace(span))
		if into == nil || err != nil {
			return r, wrongRetention(fmt.Errorf("retention %q: want raw, 1m, 1h or 1d, a colon, and a span such as 14d, 2y or forever", part))
		}
		*into = d
	}
	return r, r.check()
}

func wrongRetention(err error) error {
	return fail.With(fail.Hint(err, "the default is %s", DefaultRetention()), fail.Usage)
}

func parseSpan(s string) (time.Duration, error) {
	if s == "forever" {
		return Forever, nil
	}
	units := map[string]time.Duration{"h": time.Hour, "d": day, "w": 7 * day, "y": year}
	if len(s) < 2 {
		return 0, fmt.Errorf("no span")
	}
	u, ok := units[s[len(s)-1:]]
	n, err := strconv.ParseInt(s[:len(s)-1], 10, 32)
	if !ok || err != nil || n <= 0 || time.Duration(n) > 250*year/u {
		return 0, fmt.Errorf("no span")
	}
	return time.Duration(n) * u, nil
}

func (r Retention) check() error {
	switch {
	case r.Raw < 2*day:
		return wrongRetention(fmt.Errorf("retention %s: raw is kept for two days at least, because a day is rolled up from its points", r))
	case r.Minute < r.Raw || r.Hour < r.Minute || r.Day < r.Hour:
		return wrongRetention(fmt.Errorf("retention %s: a coarser resolution must be kept at least as long as a finer one", r))
	}
	return nil
}

func (r Retention) String() string {
	return "raw:" + span(r.Raw) + ",1m:" + span(r.Minute) + ",1h:" + span(r.Hour) + ",1d:" + span(r.Day)
}

func span(d time.Duration) string {
	switch {
	case d == Forever:
		return "forever"
	case d%year == 0:
		return fmt.Sprintf("%dy", d/year)
	case d%day == 0:
		return fmt.Sprintf("%dd", d/day)
	}
	return fmt.Sprintf("%dh", d/time.Hour)
}
