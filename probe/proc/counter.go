package proc

import (
	"fmt"
	"strconv"
	"strings"

	"headroom/host"
	"headroom/metric"
)

// Values are figures by the name that their source gives them.
type Values map[string]float64

// Figure says which figure of a source a metric is. A counter that its source
// lacks is a gap, never a zero.
type Figure struct {
	Def    *metric.Def
	Key    string
	Factor float64 // to base units; 0: 1
	Labels []string
}

// Give adds the figures that lines name to out, and notes the ones that the
// source does not have as one gap.
func (v Values) Give(out *metric.Out, source string, lines []Figure) {
	var keys []string
	var defs []*metric.Def
	for _, l := range lines {
		f, ok := v[l.Key]
		if !ok {
			keys, defs = append(keys, l.Key), append(defs, l.Def)
			continue
		}
		if l.Factor != 0 {
			f *= l.Factor
		}
		out.Add(l.Def, f, l.Labels...)
	}
	if len(keys) > 0 {
		out.Gap(fmt.Sprintf("%s of this kernel does not show %s", source, strings.Join(keys, ", ")), "", defs...)
	}
}

// Defs lists the metrics of lines, each once.
func Defs(lists ...[]Figure) []*metric.Def {
	var out []*metric.Def
	seen := map[*metric.Def]bool{}
	for _, lines := range lists {
		for _, l := range lines {
			if !seen[l.Def] {
				seen[l.Def] = true
				out = append(out, l.Def)
			}
		}
	}
	return out
}

// ReadStat reads /proc/stat: CPU seconds by kind since boot, as user, nice,
// system, idle, iowait, irq, softirq, steal; cpus, and the single figures
// ctxt, intr, processes, procs_running, procs_blocked, btime.
func ReadStat(r host.Reader) (Values, error) {
	b, err := r.ReadFile("/proc/stat")
	if err != nil {
		return nil, err
	}
	t, cpus, err := parseStat(b)
	if err != nil {
		return nil, err
	}
	v := Values{
		"user": t.User, "nice": t.Nice, "system": t.System, "idle": t.Idle, "iowait": t.IOWait, "irq": t.IRQ, "softirq": t.SoftIRQ, "steal": t.Steal,
		"cpus": float64(cpus),
	}
	for line := range strings.Lines(string(b)) {
		switch name, rest, _ := strings.Cut(line, " "); name {
		case "ctxt", "intr", "processes", "procs_running", "procs_blocked", "btime": // not softirq: that is a kind of CPU time, too
			first, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
			v.Put(name, first)
		}
	}
	return v, nil
}

// Put adds a figure in text; one that is not a finite number is left out.
func (v Values) Put(name, figure string) {
	if f, err := strconv.ParseFloat(figure, 64); err == nil && f-f == 0 {
		v[name] = f
	}
}

// ReadMeminfo reads /proc/meminfo; sizes in bytes.
func ReadMeminfo(r host.Reader) (Values, error) {
	b, err := r.ReadFile("/proc/meminfo")
	if err != nil {
		return nil, err
	}
	v := Values{}
	for name, n := range meminfo(b) {
		v[name] = float64(n)
	}
	return v, nil
}

// ReadPairs reads a file of lines "name figure", such as /proc/vmstat.
func ReadPairs(r host.Reader, file string) (Values, error) {
	b, err := r.ReadFile(file)
	if err != nil {
		return nil, err
	}
	v := Values{}
	for line := range strings.Lines(string(b)) {
		if name, figure, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " "); ok {
			v.Put(name, strings.TrimSpace(figure))
		}
	}
	return v, nil
}

// ReadTable reads a file of pairs of lines "Tcp: Name …" and "Tcp: figure …",
// such as /proc/net/snmp; keys are "Tcp.Name".
func ReadTable(r host.Reader, file string) (Values, error) {
	b, err := r.ReadFile(file)
	if err != nil {
		return nil, err
	}
	v := Values{}
	var head []string
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) == 0 {
			continue
		}
		if head == nil || head[0] != f[0] {
			head = f
			continue
		}
		for i := 1; i < len(f) && i < len(head); i++ {
			v.Put(strings.TrimSuffix(f[0], ":")+"."+head[i], f[i])
		}
		head = nil
	}
	return v, nil
}

// ReadSockets reads a file of lines "TCP: inuse 1 orphan 0 …", such as
// /proc/net/sockstat; keys are "TCP.inuse".
func ReadSockets(r host.Reader, file string) (Values, error) {
	b, err := r.ReadFile(file)
	if err != nil {
		return nil, err
	}
	v := Values{}
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		for i := 1; i+1 < len(f); i += 2 {
			v.Put(strings.TrimSuffix(f[0], ":")+"."+f[i], f[i+1])
		}
	}
	return v, nil
}

// ReadStalls reads /proc/pressure: seconds since boot in which some or all
// tasks waited, by "cpu some", "io full" and so on.
func ReadStalls(r host.Reader) (Values, error) {
	v := Values{}
	for _, name := range []string{"cpu", "memory", "io"} {
		b, err := r.ReadFile("/proc/pressure/" + name)
		if err != nil {
			return nil, noPressure(name, err)
		}
		for line := range strings.Lines(string(b)) {
			kind, rest, _ := strings.Cut(line, " ")
			if _, total, ok := strings.Cut(strings.TrimSpace(rest), "total="); ok {
				v.Put(name+" "+kind, total)
			}
		}
	}
	for k := range v {
		v[k] /= 1e6 // microseconds
	}
	return v, nil
}

// ReadNumbers reads files that hold numbers, under their own names; those that
// are not there or hold something else are left out.
func ReadNumbers(r host.Reader, files ...string) Values {
	v := Values{}
	for _, f := range files {
		if s, err := word(r, f); err == nil {
			v.Put(f, s)
		}
	}
	return v
}
