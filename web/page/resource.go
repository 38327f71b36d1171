package page

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"headroom/store"
)

// limited is something that has an end: what is used of it, of how much.
type limited struct {
	Name   string
	path   string // of the page with its charts
	used   string // metric
	limit  string // metric; "" for 1
	fixed  float64
	pairs  []string // conditions on used, label and value
	limits []string // conditions on limit
	by     []string // one for each of these labels
	less   string   // metric that is taken from limit
	rate   bool     // used is a counter: its rate counts
	free   bool     // used counts what is free
	agg    string
	skip   func(labels func(string) string) bool
	// soft is a target that may be passed for a while: what is far above it
	// is held back by something.
	soft bool
}

// ofHost are what a machine runs out of.
var ofHost = []limited{
	{Name: "CPU", path: "/host", used: "host_cpu_seconds_total", pairs: []string{"mode!", "idle", "mode!", "iowait"}, limit: "host_cpus", rate: true},
	{Name: "Memory", path: "/host", used: "host_memory_available_bytes", limit: "host_memory_total_bytes", free: true},
	{Name: "File system", path: "/disks", used: "host_filesystem_available_bytes", limit: "host_filesystem_size_bytes", free: true, by: []string{"mount", "fstype"}, skip: passing},
	{Name: "Inodes", path: "/disks", used: "host_filesystem_inodes_free", limit: "host_filesystem_inodes", free: true, by: []string{"mount", "fstype"}, skip: passing},
	{Name: "Disk time", path: "/disks", used: "host_disk_busy_seconds_total", rate: true, fixed: 1, by: []string{"device"}},
	{Name: "Connection tracking", path: "/host", used: "host_conntrack_entries", limit: "host_conntrack_entries_limit"},
	{Name: "Open files", path: "/host", used: "host_open_files", limit: "host_open_files_limit"},
	{Name: "Threads", path: "/host", used: "host_threads", limit: "host_threads_limit"},
	{Name: "TCP memory", path: "/host", used: "host_tcp_memory_bytes", limit: "host_tcp_memory_limit_bytes"},
}

// ofServer are what a PostgreSQL server runs out of.
var ofServer = []limited{
	{Name: "Connections", path: "/postgres", used: "postgres_connections_used", limit: "postgres_connections_limit", less: "postgres_connections_reserved"},
	{Name: "WAL on disk, of max_wal_size", path: "/postgres", used: "postgres_wal_files_bytes", limit: "postgres_setting_bytes", limits: []string{"setting", "max_wal_size"}, soft: true},
	{Name: "Transaction ids", path: "/postgres", used: "postgres_database_xid_age", fixed: 1 << 31, agg: "max"},
	{Name: "Autovacuum workers", path: "/postgres", used: "postgres_vacuum_workers", pairs: []string{"kind", "autovacuum"}, limit: "postgres_autovacuum_workers_limit"},
	{Name: "Replication slots", path: "/postgres", used: "postgres_slots", limit: "postgres_slots_limit"},
}

// passing are file systems in memory: they hold nothing that stays.
func passing(label func(string) string) bool {
	return slices.Contains([]string{"tmpfs", "devtmpfs", "ramfs", "overlay"}, label("fstype"))
}

// resource is one row of what is left.
type resource struct {
	Name, What string // "File system", "/var"
	Path       string
	Server     string
	Used       float64 // share, mean of the last minutes; NaN: not known
	Hour       float64 // mean of the last hour, of what comes and goes; else Used
	Busiest    float64 // share in the busiest hour of the span
	Forecast   forecast
	Soft       bool
	Why        string // why Used is not known
	failed     bool   // the store did not answer
}

// Known says whether it could be read.
func (r resource) Known() bool { return !math.IsNaN(r.Used) }

// Left is what is left, in words.
func (r resource) Left() string {
	if r.Soft {
		return "a target"
	}
	return percent(math.Max(0, 1-r.Used))
}

// Outlook is what becomes of it.
func (r resource) Outlook() string {
	switch {
	case r.Soft && r.Used > 1.5:
		return "far above its target: a slot, a standby or the archive holds the log back"
	case r.Soft:
		return "normal: the server fills it up to about the target"
	}
	return r.Forecast.String()
}

// Swings says whether the busiest hour was much above now.
func (r resource) Swings() bool { return r.Busiest > r.Used+0.1 }

// Level says how bad it is: "", warn, bad.
func (r resource) Level() string {
	soon := func(d time.Duration) bool { return r.Forecast.Likely > 0 && r.Forecast.Likely < d }
	grows := r.Hour > 0.5 && r.Forecast.Latest > 0 // surely, as far as the interval goes
	warn, bad := 0.8, 0.95
	if r.Soft {
		warn, bad, grows = 1.5, 3, false
	}
	switch {
	case !r.Known():
		return "unknown"
	case r.Hour >= bad || grows && soon(3*24*time.Hour):
		return "bad"
	case r.Hour >= warn || grows && soon(14*24*time.Hour):
		return "warn"
	}
	return ""
}

// resources are read anew each minute, for all who look; sooner where
// something could not be read.
func (v *view) resources() []resource {
	return v.p.saved.get(v.r.Context(), v.Host, v.p.now(), func(ctx context.Context) ([]resource, time.Duration) {
		all := *v
		all.r = v.r.WithContext(ctx)
		out := all.readResources()
		if slices.ContainsFunc(out, func(r resource) bool { return r.failed }) {
			return out, 3 * time.Second
		}
		return out, time.Minute
	})
}

func (v *view) readResources() (out []resource) {
	for _, l := range ofHost {
		out = append(out, v.resource(l, "host", v.Host)...)
	}
	for _, s := range v.Servers() {
		for _, l := range ofServer {
			for _, r := range v.resource(l, "host", v.Host, "server", s.Name) {
				r.Server = s.Name
				out = append(out, r)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b resource) int { return cmp.Or(worse(b)-worse(a), cmp.Compare(b.Hour, a.Hour)) })
	return out
}

func worse(r resource) int {
	return map[string]int{"bad": 3, "warn": 2, "unknown": 1}[r.Level()]
}

// resource reads two weeks in steps of ten minutes.
func (v *view) resource(l limited, pairs ...string) []resource {
	unknown := func(why string) []resource {
		return []resource{{Name: l.Name, Path: l.path, Used: math.NaN(), Why: why}}
	}
	failed := func(err error) []resource {
		out := unknown(err.Error())
		out[0].failed = true
		return out
	}
	used, at, err := v.history(l.used, l.by, l.rate, l.agg, append(slices.Clone(pairs), l.pairs...))
	if err != nil {
		return failed(err)
	}
	var limit, less []store.Line
	if l.limit != "" {
		if limit, _, err = v.history(l.limit, l.by, false, "", append(slices.Clone(pairs), l.limits...)); err != nil {
			return failed(err)
		}
	}
	if l.less != "" {
		if less, _, err = v.history(l.less, l.by, false, "", pairs); err != nil {
			return failed(err)
		}
	}
	var out []resource
	for _, line := range used {
		if l.skip != nil && l.skip(func(name string) string { return get(line.Labels, name) }) {
			continue
		}
		all := shares(l, line, at, same(limit, line), same(less, line))
		if r, ok := l.judge(all, v.p.now()); ok {
			if len(l.by) > 0 {
				r.What = get(line.Labels, l.by[0])
			}
			out = append(out, r)
		}
	}
	if len(out) == 0 {
		why := cmp.Or(v.gap(l.used), v.gap(l.limit))
		if why == "" && !v.Own() {
			return nil // a host that has nothing of the kind, for all we know
		}
		return unknown(cmp.Or(why, "no samples"))
	}
	return out
}

// history is a metric over two weeks.
func (v *view) history(name string, by []string, rate bool, agg string, pairs []string) ([]store.Line, []int64, error) {
	now := v.p.now()
	q := store.Query{From: now.Add(-trendMost), To: now, Step: 10 * time.Minute, Func: "avg", By: by, Agg: "sum"}
	if rate {
		q.Func = "rate"
	}
	if agg != "" {
		q.Agg = agg
	}
	if by == nil {
		q.By = []string{""}
	}
	q.Match = eq(name)
	for i := 0; i+1 < len(pairs); i += 2 {
		m := store.Match{Label: pairs[i], Op: "=", Value: pairs[i+1]}
		if n := len(m.Label); m.Label[n-1] == '!' {
			m.Label, m.Op = m.Label[:n-1], "!="
		}
		q.Match = append(q.Match, m)
	}
	return v.ask(q)
}

// same is the line with the same labels as another.
func same(lines []store.Line, as store.Line) []float64 {
	for _, l := range lines {
		if slices.Equal(l.Labels, as.Labels) {
			return l.Values
		}
	}
	return nil
}

func shares(l limited, used store.Line, at []int64, limit, less []float64) (all []sample) {
	whole := l.fixed
	for i, x := range used.Values {
		if l.limit != "" {
			if limit == nil || i >= len(limit) {
				continue
			}
			if !math.IsNaN(limit[i]) {
				whole = limit[i] // a limit that is read more rarely holds until the next
				if i < len(less) && !math.IsNaN(less[i]) {
					whole -= less[i]
				}
			}
		}
		if math.IsNaN(x) || !(whole > 0) {
			continue
		}
		share := x / whole
		if l.free {
			share = 1 - share
		}
		all = append(all, sample{time.UnixMilli(at[i]), share})
	}
	return all
}

// judge makes a row; what was silent for half an hour is none.
func (l limited) judge(all []sample, now time.Time) (resource, bool) {
	r := resource{Name: l.Name, Path: l.path, Soft: l.soft}
	if len(all) == 0 || now.Sub(all[len(all)-1].at) > 30*time.Minute {
		return r, false
	}
	r.Used = all[len(all)-1].value
	r.Hour = r.Used
	if l.rate {
		r.Hour = recentMean(all[max(0, len(all)-6):])
	}
	all[len(all)-1].at = now // the last ten minutes are not over
	_, y := hourly(all)
	r.Busiest = slices.Max(y)
	r.Forecast = foresee(all)
	return r, true
}

// gap is why a metric is not collected.
func (v *view) gap(name string) string {
	gaps, _, err := v.p.Parts.GapsOf(v.Host)
	if err != nil || name == "" {
		return ""
	}
	for _, g := range gaps {
		if slices.Contains(g.Metrics, name) && (g.Server == "" || g.Server == v.Server) {
			return g.Because
		}
	}
	return ""
}

func recentMean(all []sample) float64 {
	sum := 0.0
	for _, s := range all {
		sum += s.value
	}
	return sum / float64(len(all))
}
