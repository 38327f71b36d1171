// Package check makes findings of facts. A check is data plus one pure
// function; it runs as well on facts saved on another machine.
package check

import (
	"fmt"
	"sort"

	"headroom/change"
	"headroom/fact"
	"headroom/unit"
)

// Severity says how much a finding matters.
type Severity int

// The severities, in rising order.
const (
	Note    Severity = iota // good to know
	Advice                  // costs speed or comfort
	Warning                 // will hurt, or hurts now
	Danger                  // data or service is at stake
)

var severityNames = []string{"note", "advice", "warning", "danger"}

func (s Severity) String() string { return severityNames[s] }

// MarshalText implements encoding.TextMarshaler.
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Severity) UnmarshalText(b []byte) error {
	v, ok := ParseSeverity(string(b))
	if !ok {
		return fmt.Errorf("read severity %q: known are %v", b, severityNames)
	}
	*s = v
	return nil
}

// Severities lists the names in rising order.
func Severities() []string { return append([]string(nil), severityNames...) }

// ParseSeverity reads a name; ok is false for an unknown one.
func ParseSeverity(s string) (Severity, bool) {
	for i, n := range severityNames {
		if n == s {
			return Severity(i), true
		}
	}
	return 0, false
}

// Basis says what a finding rests on.
type Basis string

// The bases.
const (
	Measured Basis = "measured here"    // a figure measured or counted on this machine shows it
	ByRule   Basis = "by rule, untried" // settings against sizes; a trial would prove it
)

// Cite is one piece of evidence.
type Cite struct {
	Name   string    `json:"name"`  // "max_wal_size"
	Value  any       `json:"value"` // number, text or bool, in base units
	Unit   unit.Unit `json:"unit,omitempty"`
	Source string    `json:"source"` // "pg_settings", "/sys/block/vda/queue/rotational"
}

// Try names the trial that would prove the fix on this machine.
type Try struct {
	Change   change.Spec `json:"change"`
	Workload string      `json:"workload"`
}

// Finding is what a check makes of facts: what is so, how bad in numbers, on
// what evidence, and what to do.
type Finding struct {
	Check    string   `json:"check"`   // set by Run
	Subject  string   `json:"subject"` // "disk vda", "table public.t", "server"
	Severity Severity `json:"severity"`
	Basis    Basis    `json:"basis"`
	// Summary is one sentence with the figures: what is so and what it costs.
	Summary string `json:"summary"`
	// Hint is one or two sentences: what to do, for those cases that no Fix covers or besides it.
	Hint     string `json:"hint,omitempty"`
	Evidence []Cite `json:"evidence"`
	// Fixes are changes that `headroom plan` takes; the first is preferred.
	Fixes []change.Spec `json:"fixes,omitempty"`
	Try   *Try          `json:"try,omitempty"`
	// Worth orders findings of one severity: a rough share (0…1) of time,
	// space or safety that is at stake. It is an estimate and not printed as
	// a promise.
	Worth float64 `json:"worth"`
}

// Doc explains a check; docs/checks is generated from it.
type Doc struct {
	Title    string   // one line: what it looks for
	Why      string   // why it matters, with figures
	Evidence string   // what it looks at, and when it fires
	Fix      string   // what to do
	Risk     string   // what the fix can break
	Undo     string   // how to take it back
	Sources  []string // documents, S-numbers
}

// Check is one question put to the facts.
type Check struct {
	Name  string // "disk.rotational-flag": <topic>.<kebab-noun>, stable for ever
	Doc   Doc
	Needs []fact.Any
	// Quiet lists checks of which this one is a mere consequence: if one of
	// them fired for the same subject, this one is not shown but counted as
	// quieted. A name that ends in * counts whatever its subject.
	Quiet []string
	// Run is pure. It reads only its Needs (all known when it is called) and
	// reports to out. Reporting nothing means: looked, and fine.
	Run func(s *fact.Set, out *Report)
}

// Report collects what one check has to say.
type Report struct {
	findings []Finding
	unknown  []Unchecked
	check    string
}

// Found reports a finding.
func (r *Report) Found(f Finding) {
	f.Check = r.check
	r.findings = append(r.findings, f)
}

// Unknown reports that the question could not be answered for a subject.
func (r *Report) Unknown(subject, because string) {
	r.unknown = append(r.unknown, Unchecked{Check: r.check, Subject: subject, Because: because})
}

// Unchecked is a question that could not be answered. It is never a pass.
type Unchecked struct {
	Check   string `json:"check"`
	Subject string `json:"subject,omitempty"`
	Because string `json:"because"`
}

// Outcome is the answer of all checks that ran: every check is in exactly one
// of Fired, Fine or NotChecked by name, apart from a check that found
// something on one subject and could not tell on another (it is in both Fired
// and NotChecked).
type Outcome struct {
	Findings   []Finding   `json:"findings"` // ranked: the one worth most first
	Quieted    []Finding   `json:"quieted"`  // consequences of a finding above
	NotChecked []Unchecked `json:"not_checked"`
	Fine       []string    `json:"fine"` // names of checks that looked and found nothing
}

// Run puts all checks to the facts. It is pure.
func Run(s *fact.Set, checks []*Check) Outcome {
	out := Outcome{Findings: []Finding{}, Quieted: []Finding{}, NotChecked: []Unchecked{}, Fine: []string{}}
	for _, c := range checks {
		if why := missing(s, c); why != "" {
			out.NotChecked = append(out.NotChecked, Unchecked{Check: c.Name, Because: why})
			continue
		}
		r := Report{check: c.Name}
		c.Run(s, &r)
		out.Findings = append(out.Findings, r.findings...)
		out.NotChecked = append(out.NotChecked, r.unknown...)
		if len(r.findings)+len(r.unknown) == 0 {
			out.Fine = append(out.Fine, c.Name)
		}
	}
	out.quiet(checks)
	rank(out.Findings)
	return out
}

func missing(s *fact.Set, c *Check) string {
	for _, n := range c.Needs {
		if why := s.Why(n); why != "" {
			return why
		}
	}
	return ""
}

// quiet moves the findings that only follow from another one's cause.
func (o *Outcome) quiet(checks []*Check) {
	causes := map[string][]string{}
	for _, c := range checks {
		causes[c.Name] = c.Quiet
	}
	fired := map[string]bool{}
	for _, f := range o.Findings {
		fired[f.Check+"\x00"+f.Subject] = true
		fired[f.Check+"*"] = true
	}
	kept := o.Findings[:0:0]
	for _, f := range o.Findings {
		follows := false
		for _, cause := range causes[f.Check] {
			follows = follows || fired[cause] || fired[cause+"\x00"+f.Subject]
		}
		if follows {
			o.Quieted = append(o.Quieted, f)
		} else {
			kept = append(kept, f)
		}
	}
	o.Findings = kept
}

func rank(fs []Finding) {
	sort.SliceStable(fs, func(i, j int) bool {
		a, b := fs[i], fs[j]
		if a.Severity != b.Severity {
			return a.Severity > b.Severity
		}
		if a.Worth != b.Worth {
			return a.Worth > b.Worth
		}
		if a.Check != b.Check {
			return a.Check < b.Check
		}
		return a.Subject < b.Subject
	})
}

// Worst is the highest severity among the findings; ok is false if there are none.
func (o Outcome) Worst() (Severity, bool) {
	if len(o.Findings) == 0 {
		return 0, false
	}
	return o.Findings[0].Severity, true
}
