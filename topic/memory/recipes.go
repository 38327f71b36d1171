package memory

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"headroom/change"
	"headroom/fact"
	"headroom/fail"
	"headroom/probe/proc"
	"headroom/unit"
)

// knob is what memory.sysctl knows of one sysctl besides its name.
type knob struct {
	min, max int64
	bytes    bool
	instead  string // the sysctl that sets the same thing in another way
	risk     change.Risk
	hurts    string // what could go wrong
}

var knobs = map[string]knob{
	"vm.swappiness":                  {min: 0, max: 200, risk: change.RiskLow, hurts: "with a low value under real shortage the kernel drops file pages first, so reads get slower before anything is swapped"},
	"vm.overcommit_memory":           {min: 0, max: 2, risk: change.RiskHigh, hurts: "with 2, a program that reserves far more memory than it uses (Java, browsers, some sanitizers) fails to start once the limit is reached"},
	"vm.overcommit_ratio":            {min: 1, max: 100, risk: change.RiskMedium, hurts: "matters only while vm.overcommit_memory is 2: too low a value makes allocations fail"},
	"vm.dirty_ratio":                 {min: 1, max: 100, instead: "vm.dirty_bytes", risk: change.RiskLow, hurts: "too low a value makes writers wait for the disk sooner"},
	"vm.dirty_bytes":                 {min: 1 * unit.MB, max: 1 << 50, bytes: true, instead: "vm.dirty_ratio", risk: change.RiskLow, hurts: "too low a value makes writers wait for the disk sooner, also those of bulk copies"},
	"vm.dirty_background_ratio":      {min: 1, max: 100, instead: "vm.dirty_background_bytes", risk: change.RiskLow, hurts: "too low a value writes pages that are soon changed again"},
	"vm.dirty_background_bytes":      {min: 1 * unit.MB, max: 1 << 50, bytes: true, instead: "vm.dirty_background_ratio", risk: change.RiskLow, hurts: "too low a value writes pages that are soon changed again"},
	"vm.nr_hugepages":                {min: 0, max: 1 << 31, risk: change.RiskMedium, hurts: "memory set aside as huge pages is of no use to programs that do not ask for them"},
	"vm.zone_reclaim_mode":           {min: 0, max: 7, risk: change.RiskLow, hurts: "with 0, a process may be given memory of another NUMA node, which is slower to reach"},
	"kernel.sched_autogroup_enabled": {min: 0, max: 1, risk: change.RiskLow, hurts: "desktop sessions lose their fair share against background work"},
}

var sysctlRecipe = &change.Recipe{
	ID: "memory.sysctl",
	Doc: "Sets kernel figures (sysctls) now and, by one file per figure in /etc/sysctl.d (60-headroom-NAME.conf), at each boot. " +
		"Revert writes the old values back and removes the files.",
	Args:  []change.Arg{{Name: "", Doc: "one of " + strings.Join(knownSysctls(), ", ") + "; sizes take a unit", Eg: "vm.swappiness=10"}},
	Needs: []fact.Any{proc.Sysctls, proc.Memories, proc.Boots},
	Plan:  planSysctl,
}

func knownSysctls() []string { return (&proc.Sysctl{}).Names() }

func usage(format string, args ...any) error {
	return fail.With(fmt.Errorf(format, args...), fail.Usage)
}

func planSysctl(s *fact.Set, spec change.Spec) (change.Change, error) {
	if spec.Object != "" || len(spec.Args) == 0 {
		return change.Change{}, fail.Hint(usage("it takes NAME=VALUE and no object"),
			"e.g. memory.sysctl vm.swappiness=10; known are %s", strings.Join(knownSysctls(), ", "))
	}
	for name := range spec.Args {
		if _, ok := knobs[name]; !ok {
			return change.Change{}, usage("unknown name %q (known: %s)", name, strings.Join(knownSysctls(), ", "))
		}
	}
	now, boot := fact.Get(s, proc.Sysctls), fact.Get(s, proc.Boots)
	p := sysctlPlan{boot: boot, want: map[string]int64{}, c: change.Change{Spec: spec, Subject: "kernel", Risk: change.RiskLow}}
	// In the order of Names: what another one depends on comes first, and is
	// taken back last.
	for _, name := range now.Names() {
		value, given := spec.Args[name]
		if !given {
			continue
		}
		v, _ := now.Value(name)
		if !v.OK() {
			return change.Change{}, fmt.Errorf("%s: could not be read here: %s", name, v.Because)
		}
		n, err := p.value(name, value)
		if err != nil {
			return change.Change{}, err
		}
		p.set(name, n)
	}
	if err := p.together(s, now); err != nil {
		return change.Change{}, err
	}
	if !boot.SysctlD {
		p.warnings = append(p.warnings, "this machine has no /etc/sysctl.d, so it lasts until the next boot only")
	}
	p.c.Why = "Set " + strings.Join(p.said, ", ") + "."
	p.c.RiskWhy = sentence(p.warnings)
	if p.c.Risk == change.RiskHigh {
		p.c.Confirm = 2 * time.Minute
	}
	return p.c, nil
}

type sysctlPlan struct {
	boot     proc.Boot
	want     map[string]int64
	c        change.Change
	said     []string
	warnings []string
}

// value reads what the user wrote, in the sysctl's own unit.
func (p *sysctlPlan) value(name, value string) (int64, error) {
	k := knobs[name]
	v, u, err := unit.Parse(value)
	switch {
	case err != nil:
		return 0, usage("%s: %w", name, err)
	case u != unit.None && !(k.bytes && u == unit.Byte):
		return 0, usage("%s=%s: it takes %s", name, value, k.takes())
	case v != float64(int64(v)) || int64(v) < k.min || int64(v) > k.max:
		return 0, usage("%s=%s: out of range, it takes %s", name, value, k.takes())
	}
	return int64(v), nil
}

func (k knob) takes() string {
	if k.bytes {
		return fmt.Sprintf("a size of at least %s, such as 256MB (to go back to a percentage, set %s)", unit.Bytes(k.min), k.instead)
	}
	return fmt.Sprintf("a whole number from %d to %d", k.min, k.max)
}

// set adds the steps for one sysctl: now, and at each boot.
func (p *sysctlPlan) set(name string, n int64) {
	k, text := knobs[name], strconv.FormatInt(n, 10)
	v := change.Value{Path: proc.SysctlPath(name), Value: text}
	if k.instead != "" {
		v.Instead = proc.SysctlPath(k.instead)
	}
	p.c.Steps = append(p.c.Steps, v)
	if p.boot.SysctlD {
		if rival := proc.SysctlFile(k.instead); k.instead != "" && slices.Contains(p.boot.Own, rival) {
			p.c.Steps = append(p.c.Steps, change.File{Path: rival, Absent: true})
		}
		p.c.Steps = append(p.c.Steps, change.File{Path: proc.SysctlFile(name), Content: "# Set by headroom; `headroom journal` lists it, `headroom revert` takes it back.\n" + name + " = " + text + "\n", Mode: 0o644})
	}
	if l, ok := p.boot.Overrides(name, text); ok {
		p.warnings = append(p.warnings, fmt.Sprintf("%s sets %s = %s later at boot and wins then: change that line too", l.File, name, l.Value))
	}
	p.want[name] = n
	p.said = append(p.said, name+" = "+text)
	p.warnings = append(p.warnings, k.hurts)
	if rank[k.risk] > rank[p.c.Risk] && !(name == "vm.overcommit_memory" && n != 2) {
		p.c.Risk = k.risk
	}
}

var rank = map[change.Risk]int{change.RiskLow: 0, change.RiskMedium: 1, change.RiskHigh: 2}

// together refuses what does not fit together or to the machine.
func (p *sysctlPlan) together(s *fact.Set, now proc.Sysctl) error {
	for _, pair := range [][2]string{{"vm.dirty_ratio", "vm.dirty_bytes"}, {"vm.dirty_background_ratio", "vm.dirty_background_bytes"}} {
		_, a := p.want[pair[0]]
		_, b := p.want[pair[1]]
		if a && b {
			return usage("%s and %s set the same limit; give one of them", pair[0], pair[1])
		}
	}
	for _, pair := range [][2]string{{"vm.dirty_background_ratio", "vm.dirty_ratio"}, {"vm.dirty_background_bytes", "vm.dirty_bytes"}} {
		low, high := p.after(now, pair[0]), p.after(now, pair[1])
		if p.touches(pair[0], pair[1]) && low > 0 && high > 0 && low >= high {
			return usage("%s (%d) must be below %s (%d): writing in the background has to begin before writers are held up", pair[0], low, pair[1], high)
		}
	}
	m := fact.Get(s, proc.Memories)
	if n, ok := p.want["vm.nr_hugepages"]; ok {
		room := m.Available.Value + m.HugeTotal.Value*m.HugeSize.Value
		if size := n * m.HugeSize.Value; m.Available.OK() && m.HugeSize.OK() && size > room/10*9 {
			return usage("vm.nr_hugepages=%d: that is %s of the %s that can be had", n, unit.Bytes(size), unit.Bytes(room))
		}
	}
	if p.after(now, "vm.overcommit_memory") == 2 && p.touches("vm.overcommit_memory", "vm.overcommit_ratio") {
		return p.fitsCommitted(m, p.after(now, "vm.overcommit_ratio"))
	}
	return nil
}

// fitsCommitted refuses a commit limit that programs already stand at: the
// next allocation of anybody would fail.
func (p *sysctlPlan) fitsCommitted(m proc.Memory, ratio int64) error {
	if !m.Committed.OK() {
		return fmt.Errorf("vm.overcommit_memory=2: %s", m.Committed.Because)
	}
	limit := commitLimit(m, ratio)
	if m.Committed.Value > limit/10*9 {
		return fail.Hint(usage("programs hold promises of %s already and the limit would be %s: allocations would fail at once",
			unit.Bytes(m.Committed.Value), unit.Bytes(limit)), "give a larger vm.overcommit_ratio, or add swap")
	}
	return nil
}

// commitLimit is what the kernel promises at most when overcommit is off:
// Documentation/mm/overcommit-accounting.
func commitLimit(m proc.Memory, ratio int64) int64 {
	return (m.Total-m.HugeTotal.Value*m.HugeSize.Value)/100*ratio + m.SwapTotal.Value
}

func (p *sysctlPlan) touches(names ...string) bool {
	return slices.ContainsFunc(names, func(n string) bool { _, ok := p.want[n]; return ok })
}

// after is what a sysctl will be. Setting one of a pair makes the other 0.
func (p *sysctlPlan) after(now proc.Sysctl, name string) int64 {
	if n, ok := p.want[name]; ok {
		return n
	}
	if k := knobs[name]; k.instead != "" && p.touches(k.instead) {
		return 0
	}
	v, _ := now.Value(name)
	return v.Value
}

// sentence joins clauses that are no sentences by themselves.
func sentence(clauses []string) string {
	s := strings.Join(slices.Compact(clauses), "; ")
	if s == "" {
		return ""
	}
	return strings.ToUpper(s[:1]) + s[1:] + "."
}
