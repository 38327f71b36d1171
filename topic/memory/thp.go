package memory

import (
	"fmt"
	"slices"
	"strings"

	"headroom/change"
	"headroom/fact"
	"headroom/fail"
	"headroom/probe/proc"
)

const thpFolder = "/sys/kernel/mm/transparent_hugepage/"

// thpModes are what the kernel takes, per file.
var thpModes = map[string][]string{
	"enabled": {"always", "madvise", "never"},
	"defrag":  {"always", "defer", "defer+madvise", "madvise", "never"},
}

var thpRecipe = &change.Recipe{
	ID: "memory.thp",
	Doc: "Sets transparent huge pages now and, by a systemd-tmpfiles line in /etc/tmpfiles.d (60-headroom-thp-NAME.conf), at each boot. " +
		"Memory that is already in huge pages stays so until its program ends. Revert writes the old choice back and removes the file.",
	Args: []change.Arg{
		{Name: "enabled", Doc: "who gets transparent huge pages: " + strings.Join(thpModes["enabled"], ", "), Eg: "madvise"},
		{Name: "defrag", Doc: "who waits while memory is compacted into huge pages: " + strings.Join(thpModes["defrag"], ", "), Eg: "madvise"},
	},
	Needs: []fact.Any{proc.Memories, proc.Boots},
	Plan:  planTHP,
}

func planTHP(s *fact.Set, spec change.Spec) (change.Change, error) {
	if spec.Object != "" || len(spec.Args) == 0 {
		return change.Change{}, fail.Hint(usage("it takes enabled=… or defrag=… and no object"), "e.g. memory.thp enabled=madvise")
	}
	for name := range spec.Args {
		if thpModes[name] == nil {
			return change.Change{}, usage("unknown name %q (known: enabled, defrag)", name)
		}
	}
	m, boot := fact.Get(s, proc.Memories), fact.Get(s, proc.Boots)
	c := change.Change{Spec: spec, Subject: "kernel", Risk: change.RiskLow,
		RiskWhy: "A program that gained from huge pages without asking for them gets slower."}
	var said []string
	for _, name := range []string{"enabled", "defrag"} {
		value, given := spec.Args[name]
		if !given {
			continue
		}
		if !slices.Contains(thpModes[name], value) {
			return change.Change{}, usage("%s=%s: it takes one of %s", name, value, strings.Join(thpModes[name], ", "))
		}
		if now := map[string]fact.Opt[string]{"enabled": m.THP, "defrag": m.THPDefrag}[name]; !now.OK() {
			return change.Change{}, fmt.Errorf("transparent huge pages cannot be read here: %s", now.Because)
		}
		c.Steps = append(c.Steps, change.Value{Path: thpFolder + name, Value: value})
		if boot.Tmpfiles {
			c.Steps = append(c.Steps, change.File{Path: proc.TmpfilesFile("thp-" + name), Mode: 0o644,
				Content: "# Set by headroom; `headroom journal` lists it, `headroom revert` takes it back.\nw " + thpFolder + name + " - - - - " + value + "\n"})
		}
		said = append(said, name+" = "+value)
	}
	if !boot.Tmpfiles {
		c.RiskWhy += " This machine has no /etc/tmpfiles.d, so it lasts until the next boot only."
	}
	c.Why = "Set transparent huge pages: " + strings.Join(said, ", ") + "."
	return c, nil
}
