package agent

import (
	"fmt"
	"time"

	"headroom/metric"
	"headroom/topic/own"
)

// is returns the target as it is known now.
func (s *slot) is() Target {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.target
}

// retarget takes what is newly known of the target; false if the slot must
// begin anew for it.
func (s *slot) retarget(t Target) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.DSN != s.target.DSN || (t.Missing == "") != (s.target.Missing == "") {
		return false
	}
	s.target = t
	return true
}

// gone notes that the target is not found any more, and says for how long that
// has been so.
func (s *slot) gone(now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.target.Gone.IsZero() {
		s.target.Gone = now
	}
	return now.Sub(s.target.Gone)
}

func (s *slot) gaps() []metric.Gap {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []metric.Gap
	for _, g := range s.groups {
		for _, j := range g.jobs {
			gaps := j.gaps
			if s.target.Missing != "" {
				gaps = []metric.Gap{g.full(j, metric.Gap{Because: s.target.Missing, Hint: s.target.Hint})}
			}
			for _, gap := range gaps {
				if !s.target.Gone.IsZero() {
					gap.Because = fmt.Sprintf("not found any more since %s: %s", s.target.Gone.Format(time.RFC3339), gap.Because)
				}
				out = append(out, gap)
			}
		}
	}
	return out
}

func (s *slot) reports() []own.Report {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []own.Report
	for _, g := range s.groups {
		for _, j := range g.jobs {
			if j.report.Rounds > 0 || s.target.Missing != "" {
				out = append(out, j.report)
			}
		}
	}
	return out
}
