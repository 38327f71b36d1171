package postgres

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strings"

	"headroom/change"
	"headroom/fact"
	"headroom/fail"
	"headroom/probe/block"
	"headroom/probe/pg"
	"headroom/probe/place"
	"headroom/unit"
)

var settingRecipe = &change.Recipe{
	ID: settingID,
	Doc: "Sets one or more server settings with ALTER SYSTEM, for the whole server and for good, then reloads it, or restarts it if one of them needs that. " +
		"Values are checked against what the server says it takes before anything is written. Revert puts back what postgresql.auto.conf held.",
	Args:  []change.Arg{{Name: "", Doc: "any setting of the server (SELECT name FROM pg_settings), as name=value; sizes and times take a unit", Eg: "max_wal_size=10GB"}},
	Needs: []fact.Any{pg.Servers, pg.Settings, place.Layouts, block.Mounts},
	Plan:  planSetting,
}

func usage(format string, args ...any) error {
	return fail.With(fmt.Errorf(format, args...), fail.Usage)
}

func planSetting(s *fact.Set, spec change.Spec) (change.Change, error) {
	if spec.Object != "" || len(spec.Args) == 0 {
		return change.Change{}, fail.Hint(usage("plan postgres.setting: it takes name=value and no object"), "e.g. postgres.setting max_wal_size=10GB")
	}
	srv, c := fact.Get(s, pg.Servers), fact.Get(s, pg.Settings)
	if err := changeable(srv, c); err != nil {
		return change.Change{}, fmt.Errorf("plan postgres.setting: %w", err)
	}
	step := change.Setting{Values: map[string]string{}}
	out := change.Change{Spec: spec, Subject: subject(srv, c), Risk: change.RiskLow, RiskWhy: "takes effect at once and is undone at once"}
	var why []string
	for _, arg := range sorted(spec.Args) {
		name, value := strings.ToLower(arg), spec.Args[arg]
		proper, ok := find(c, name)
		if !ok {
			return change.Change{}, unknownSetting(c, name)
		}
		one := c.All[proper]
		if one.Context == "internal" {
			return change.Change{}, usage("plan postgres.setting: parameter %q cannot be changed", name)
		}
		if err := onStandby(srv, c, name, value); err != nil {
			return change.Change{}, err
		}
		if _, twice := step.Values[name]; twice {
			return change.Change{}, usage("plan postgres.setting: %s is given twice", name)
		}
		step.Values[name] = value
		step.Restart = step.Restart || one.Context == "postmaster"
		why = append(why, reason(c, proper))
		h := hazardOf(s, name, value)
		switch told := name + ": " + h.why; {
		case worse(h.risk, out.Risk):
			out.Risk, out.RiskWhy = h.risk, told
		case h.risk == out.Risk && h.risk != change.RiskLow:
			out.RiskWhy += "; " + told
		}
	}
	out.Why = strings.Join(slices.Compact(why), " ")
	if out.Restart = step.Restart; step.Restart {
		if worse(change.RiskMedium, out.Risk) {
			out.Risk, out.RiskWhy = change.RiskMedium, "the restart cuts every connection and empties shared_buffers"
		} else {
			out.RiskWhy += "; and the restart cuts every connection"
		}
	}
	out.Steps = change.Steps{step}
	return out, nil
}

// changeable says why a server's settings cannot be changed through this
// connection at all.
func changeable(srv pg.Server, c pg.Config) error {
	switch {
	case srv.Pooled:
		return fail.Hint(fmt.Errorf("a connection pooler answers in the server's place"), "connect to the server itself: its own port or socket in --db")
	case srv.Version < 90500:
		return fmt.Errorf("server version %d is too old: it does not tell which settings wait for a restart", srv.Version)
	case c.Off("allow_alter_system"):
		return fail.Hint(fmt.Errorf("ALTER SYSTEM is not allowed on this server (allow_alter_system is off)"), "its settings are kept elsewhere (an operator, a tool): change them there")
	}
	return nil
}

// shrinking are the settings that a standby needs at least as large as its
// primary's, else it does not start.
var shrinking = []string{"max_connections", "max_worker_processes", "max_wal_senders", "max_prepared_transactions", "max_locks_per_transaction"}

func onStandby(srv pg.Server, c pg.Config, name, value string) error {
	if !srv.Recovery || !slices.Contains(shrinking, name) {
		return nil
	}
	was, ok := c.Number(name)
	v, _, err := unit.Parse(value)
	if ok && err == nil && v < was {
		return fail.Hint(fmt.Errorf("plan postgres.setting %s=%s: this server is a standby, which does not start with less than its primary has", name, value),
			"lower it on the primary first, then here")
	}
	return nil
}

// find looks a setting up by its lower-case name and returns the proper one.
func find(c pg.Config, name string) (proper string, ok bool) {
	if _, ok := c.All[name]; ok {
		return name, true
	}
	for n := range c.All { // DateStyle, IntervalStyle, TimeZone
		if strings.ToLower(n) == name {
			return n, true
		}
	}
	return "", false
}

func unknownSetting(c pg.Config, name string) error {
	err := usage("plan postgres.setting: unrecognized configuration parameter %q", name)
	if near := nearest(name, c.All); near != "" {
		return fail.Hint(err, "did you mean %s?", near)
	}
	if c.Hidden != "" {
		return fail.Hint(err, "it may be one that cannot be seen: %s", c.Hidden)
	}
	return fail.Hint(err, "SELECT name FROM pg_settings lists them; an extension's settings show once its library is loaded")
}

func subject(srv pg.Server, c pg.Config) string {
	return fmt.Sprintf("PostgreSQL %d server, port %s", srv.Major, c.Text("port"))
}

// gains are why one would change a setting at all.
var gains = map[string]string{
	"max_wal_size":                 "A larger log means fewer checkpoints, and fewer pages logged whole and written again",
	"checkpoint_timeout":           "Fewer checkpoints mean fewer pages logged whole and written again",
	"checkpoint_completion_target": "Checkpoints are written at an even pace",
	"wal_compression":              "Pages logged whole take less of the log",
	"wal_buffers":                  "Sessions need not write the log themselves",
	"shared_buffers":               "More pages are found in memory, and written less often",
	"huge_pages":                   "Page tables get small",
	"effective_cache_size":         "The planner knows how much is cached",
	"work_mem":                     "Sorts and hashes stay in memory, within what there is",
	"maintenance_work_mem":         "Vacuum and index builds pass over the data less often",
	"random_page_cost":             "The planner knows what a random read costs here",
	"effective_io_concurrency":     "Bitmap scans ask for many pages at once",
	"autovacuum":                   "Dead rows are cleaned up",
}

// reason is why one would change a setting, and what it is now.
func reason(c pg.Config, name string) string {
	now := fmt.Sprintf("%s is %s now", name, cmp.Or(c.Shown(name), "empty"))
	if c.Stock(name) {
		now += ", as built in"
	}
	if g, ok := gains[name]; ok {
		return g + "; " + now + "."
	}
	return now + "."
}

func sorted(m map[string]string) []string {
	out := make([]string, 0, len(m))
	for n := range m {
		out = append(out, n)
	}
	sort.Strings(out)
	return out
}

// nearest is the setting whose name is spelt most like name, or "".
func nearest(name string, all map[string]pg.Setting) string {
	best, least := "", len(name)/3+1
	for _, n := range sortedSettings(all) {
		if d := distance(name, n); d < least {
			best, least = n, d
		}
	}
	return best
}

func sortedSettings(all map[string]pg.Setting) []string {
	out := make([]string, 0, len(all))
	for n := range all {
		out = append(out, n)
	}
	sort.Strings(out)
	return out
}

// distance is the Levenshtein distance in bytes.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}
