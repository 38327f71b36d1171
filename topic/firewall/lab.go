package firewall

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"headroom/fail"
	"headroom/lab"
	"headroom/trial"
	"headroom/unit"
)

// The lab's measures. The first decides.
var (
	perCore   = trial.Measure{Name: "per_core", Unit: unit.PerSecond, Higher: true, Noun: "packets per second of one core's work"}
	nanos     = trial.Measure{Name: "ns_per_packet", Unit: unit.Count, Noun: "ns per packet"}
	atRule    = trial.Measure{Name: "at_rule", Unit: unit.PerSecond, Higher: true, Noun: "packets/s at the rule"}
	coreBusy  = trial.Measure{Name: "core_busy", Unit: unit.Ratio, Noun: "receiving core busy"}
	loadTime  = trial.Measure{Name: "load_seconds", Unit: unit.Second, Noun: "time to load"}
	setMemory = trial.Measure{Name: "memory", Unit: unit.Byte, Noun: "kernel memory"}
)

// Cost is what S8 tells of rules, with today's ways beside them.
var Cost = &lab.Lab{
	Name:     "firewall",
	Title:    "What a firewall rule costs",
	Question: "How many packets does one core drop or accept per second, by where the rule stands and how it looks?",
	Doc: "Each arm has a network namespace of its own with its rules in it. A turn floods it and counts at the rule. " +
		"On the loopback one core sends and receives, through a socket, as the source did; on a wire (-p on=wire) one core sends frames from spoofed sources and another takes them in, " +
		"as from a network card, and only the second one's work counts. " +
		"With --rules your own rule sets are the arms, each under the packets that its rules are about. The machine's own rules are not touched.",
	Source:   "S8",
	Then:     "kernel 4.4, one core, 128-byte UDP to one port of the loopback",
	Measures: []trial.Measure{perCore, nanos, atRule, coreBusy, loadTime, setMemory},
	Params: []trial.Param{
		{Name: "on", Doc: "where the packets come in: loopback or wire; with rules always on a wire", Default: "loopback", Check: oneOf("loopback", "wire")},
		{Name: "ms", Doc: "milliseconds of a turn", Default: "250", Check: between(20, 60_000)},
		{Name: "size", Doc: "bytes of a packet, IP header included", Default: "128", Check: between(64, 1500)},
		{Name: "entries", Doc: "entries of the largest sets", Default: "1000000", Check: between(1000, 2_000_000)},
		{Name: "rules", Doc: "files with rule sets to measure instead, with commas between them: iptables-save, nft's syntax or its JSON", Default: ""},
	},
	New: newCost,
	Say: sayCost,
}

func newCost(p map[string]string) (lab.Experiment, error) {
	if p["rules"] != "" { // the result names what was done
		p["on"] = "wire"
	}
	w := &works{wire: p["on"] == "wire"}
	var err error
	for name, to := range map[string]*int{"ms": &w.ms, "size": &w.size, "entries": &w.entries} {
		if *to, err = strconv.Atoi(p[name]); err != nil {
			return lab.Experiment{}, fmt.Errorf("read parameter %s: %w", name, err)
		}
	}
	if p["rules"] != "" {
		return w.compareFiles(strings.Split(p["rules"], ","))
	}
	for _, r := range allRows(w.entries) {
		if w.wire && !r.onWire || !w.wire && !r.onLoopback {
			continue
		}
		w.rows = append(w.rows, r)
	}
	e := lab.Experiment{Size: w.describe(), Setup: w.setup}
	for _, r := range w.rows {
		a := lab.Arm{Name: r.name, Doc: r.doc, Run: w.run(r)}
		if !w.wire {
			a.Then, a.As = r.then, r.as
		}
		e.Arms = append(e.Arms, a)
	}
	for _, c := range claims {
		if w.has(c.Arm) && w.has(c.Over) {
			if w.wire {
				c.Then = 0
			}
			e.Claims = append(e.Claims, c)
		}
	}
	return e, nil
}

func (w *works) describe() string {
	if w.wire {
		return fmt.Sprintf("%d-byte UDP from up to %d spoofed sources over a wire, %d ms a turn", w.size, sources, w.ms)
	}
	return fmt.Sprintf("%d-byte UDP to one port of the loopback, %d ms a turn", w.size, w.ms)
}

func (w *works) has(name string) bool {
	for _, r := range w.rows {
		if r.name == name {
			return true
		}
	}
	return false
}

// run is a turn of a row: flood its place and count.
func (w *works) run(r *row) func(context.Context, *lab.Turn) error {
	return func(ctx context.Context, t *lab.Turn) error {
		got, err := w.places[r.name].measure(ctx, w.ms)
		if err != nil {
			return err
		}
		if got.packets == 0 || got.nanos <= 0 {
			return fail.Hint(fmt.Errorf("count packets: of %d sent none came to the rule", got.sent), "this is a defect of the lab; please report it with the arm's name")
		}
		each := float64(got.nanos) / float64(got.packets)
		t.Figure(perCore.Name, 1e9/each)
		t.Figure(nanos.Name, each)
		t.Figure(atRule.Name, float64(got.packets)/got.took.Seconds())
		t.Figure(coreBusy.Name, got.busy)
		if p := w.places[r.name]; p.loaded > 0 {
			t.Figure(loadTime.Name, p.loaded.Seconds())
			if p.memory > 0 {
				t.Figure(setMemory.Name, float64(p.memory))
			}
		}
		return nil
	}
}

func oneOf(words ...string) func(string) error {
	return func(s string) error {
		for _, w := range words {
			if s == w {
				return nil
			}
		}
		return fmt.Errorf("%q is none of %s", s, strings.Join(words, ", "))
	}
}

func between(lo, hi int) func(string) error {
	return func(s string) error {
		if n, err := strconv.Atoi(s); err != nil || n < lo || n > hi {
			return fmt.Errorf("%q is not a whole number from %d to %d", s, lo, hi)
		}
		return nil
	}
}
