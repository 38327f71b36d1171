package trial

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"golang.org/x/perf/benchfmt"

	"headroom/unit"
)

// Bench writes the rounds that count in the Go benchmark format, one line per
// round, which benchstat reads: `benchstat -col /arm FILE` compares the arms with
// the base, for it takes the first arm that it meets as the one to compare with.
// Units: the noun (upserts/s) for rates, sec for times, B for bytes.
func (r *Result) Bench(w io.Writer) error {
	out := benchfmt.NewWriter(w)
	for _, m := range r.Measures {
		u := benchUnit(m)
		meta := &benchfmt.UnitMetadata{UnitMetadataKey: benchfmt.UnitMetadataKey{Unit: u, Key: "better"}, OrigUnit: u, Value: string(m.better())}
		if err := out.Write(meta); err != nil {
			return fmt.Errorf("write trial as benchmark: %w", err)
		}
	}
	for arm := range r.Arms {
		for _, x := range r.Rounds {
			if !x.Counts || x.Arm != arm {
				continue
			}
			if err := out.Write(r.benchLine(x)); err != nil {
				return fmt.Errorf("write trial as benchmark: %w", err)
			}
		}
	}
	return nil
}

func (r *Result) benchLine(x RoundResult) *benchfmt.Result {
	line := &benchfmt.Result{Name: benchfmt.Name(benchName(r.Workload, r.Arms[x.Arm].Name)), Iters: max(1, int(x.Done))}
	config := func(key, value string) {
		line.Config = append(line.Config, benchfmt.Config{Key: key, Value: []byte(strings.ReplaceAll(value, "\n", " ")), File: true})
	}
	config("trial", r.Name)
	config("where", r.Where)
	config("seed", fmt.Sprint(r.Options.Seed))
	for _, name := range slices.Sorted(maps.Keys(r.Params)) {
		config("param-"+strings.ReplaceAll(name, "_", "-"), r.Params[name])
	}
	for _, m := range r.Measures {
		if v, ok := x.Figures[m.Name]; ok {
			line.Values = append(line.Values, benchfmt.Value{Value: v, Unit: benchUnit(m)})
		}
	}
	return line
}

// benchName is the workload and the arm as the format wants them: the first
// letter large, no blanks, no slashes in the arm.
func benchName(workload, arm string) string {
	words := strings.FieldsFunc(workload, func(c rune) bool { return c == '.' || c == ' ' })
	name := ""
	for _, w := range words {
		name += strings.ToUpper(w[:1]) + w[1:]
	}
	clean := strings.Map(func(c rune) rune {
		if c <= ' ' || c == '/' || c == 0x7f {
			return '_'
		}
		return c
	}, arm)
	return name + "/arm=" + clean
}

func benchUnit(m Measure) string {
	switch {
	case m.Unit == unit.Second:
		return m.Name + "-sec"
	case m.Unit == unit.Byte:
		return m.Name + "-B"
	case m.Noun != "" && !strings.ContainsAny(m.Noun, " \t"):
		return m.Noun
	}
	return m.Name
}
