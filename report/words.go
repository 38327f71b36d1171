package report

import (
	"fmt"
	"strings"
	"time"

	"headroom/change"
)

// short writes a whole duration as a person would: "2m", "1h30m".
func short(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// moment writes a time as people and logs can compare it.
func moment(t time.Time) string {
	if t.IsZero() {
		return "time not known"
	}
	return t.UTC().Format("2006-01-02 15:04:05 UTC")
}

// shortMoment is a moment in a column that says UTC.
func shortMoment(t time.Time) string { return strings.TrimSuffix(moment(t), " UTC") }

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

func planCommand(c change.Spec) string { return "headroom plan " + c.String() }

func tryCommand(c change.Spec, workload string) string {
	return "headroom try " + quote(c.String()) + " --on " + workload
}

// quote makes one shell word of s.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
