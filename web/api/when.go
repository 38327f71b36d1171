package api

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// parseWhen reads a time: RFC 3339, milliseconds since 1970, "now", or back
// from now: "-2h", "-14d".
func parseWhen(name, text string, now time.Time) (time.Time, error) {
	bad := func() (time.Time, error) {
		return time.Time{}, refuse(http.StatusBadRequest, "write it as 2026-11-21T14:00:00Z, as milliseconds since 1970, or as -2h", "read %s %.60q: not a time", name, text)
	}
	if text == "now" {
		return now, nil
	}
	if back, ok := strings.CutPrefix(text, "-"); ok {
		d, ok := parseSpan(back)
		if !ok {
			return bad()
		}
		return now.Add(-d), nil
	}
	if ms, err := strconv.ParseInt(text, 10, 64); err == nil {
		if ms < 0 || ms > maxMillis {
			return bad()
		}
		return time.UnixMilli(ms).UTC(), nil
	}
	t, err := time.Parse(time.RFC3339Nano, strings.Replace(text, " ", "+", 1)) // an unescaped + of a zone
	if err != nil || t.Year() < 1970 || t.Year() > 9999 {
		return bad()
	}
	return t.UTC(), nil
}

// maxMillis is the end of the year 9999.
const maxMillis = 253_402_300_799_999

// parseSpan reads a length of time: Go's form, and whole days and weeks; a
// bare number is seconds. It is above 0 and at most 100 years.
func parseSpan(text string) (time.Duration, bool) {
	const most = 100 * 365 * 24 * time.Hour
	unit := map[byte]time.Duration{'d': 24 * time.Hour, 'w': 7 * 24 * time.Hour}
	if text == "" {
		return 0, false
	}
	var d time.Duration
	last := text[len(text)-1]
	switch {
	case unit[last] > 0:
		n, err := strconv.ParseUint(text[:len(text)-1], 10, 16)
		if err != nil {
			return 0, false
		}
		d = time.Duration(min(n, 40_000)) * unit[last]
	case last >= '0' && last <= '9':
		n, err := strconv.ParseFloat(text, 64)
		if err != nil || !(n > 0 && n < most.Seconds()) {
			return 0, false
		}
		d = time.Duration(n * float64(time.Second))
	default:
		var err error
		if d, err = time.ParseDuration(text); err != nil {
			return 0, false
		}
	}
	return d, d > 0 && d <= most
}

// span reads from and to; by default the last hour.
func (a *API) span(q url.Values) (from, to time.Time, err error) {
	now := a.Now().UTC()
	from, to = now.Add(-time.Hour), now
	if v := q.Get("to"); v != "" {
		if to, err = parseWhen("to", v, now); err != nil {
			return from, to, err
		}
		from = to.Add(-time.Hour)
	}
	if v := q.Get("from"); v != "" {
		if from, err = parseWhen("from", v, now); err != nil {
			return from, to, err
		}
	}
	if !from.Before(to) {
		return from, to, refuse(http.StatusBadRequest, "", "from %s is not before to %s", from.Format(time.RFC3339), to.Format(time.RFC3339))
	}
	return from, to, nil
}
