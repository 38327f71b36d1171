package postgres

import (
	"fmt"
	"math"
	"strconv"

	"headroom/change"
	"headroom/check"
	"headroom/fact"
	"headroom/probe/block"
	"headroom/probe/pg"
	"headroom/probe/place"
	"headroom/probe/proc"
	"headroom/unit"
)

// The ids of this topic's recipes.
const (
	settingID   = "postgres.setting"
	extensionID = "postgres.extension"
)

// server is the subject of findings about the server as a whole.
const server = "server"

// undoSetting is how every change of a setting is taken back.
const undoSetting = "`headroom revert ID` puts back what postgresql.auto.conf held before, or removes the line."

// set is the change of settings, given as name, value, name, value…
func set(pairs ...string) change.Spec {
	s := change.Spec{ID: settingID, Args: map[string]string{}}
	for i := 0; i+1 < len(pairs); i += 2 {
		s.Args[pairs[i]] = pairs[i+1]
	}
	return s
}

// prove names the trial of a change.
func prove(c change.Spec, workload string) *check.Try {
	return &check.Try{Change: c, Workload: workload}
}

// cite is a setting as evidence.
func cite(c pg.Config, name string) check.Cite {
	out := check.Cite{Name: name, Source: "pg_settings"}
	s := c.All[name]
	if v, ok := c.Number(name); ok {
		out.Value, out.Unit = v, s.Base
		switch {
		case v < 0: // a special meaning, not a size
			out.Unit = unit.None
		case s.Base == unit.None && s.Type == "integer":
			out.Unit = unit.Count
		}
	} else {
		out.Value = s.Value
	}
	if s.File != "" {
		out.Source = s.File + ":" + strconv.FormatInt(s.Line, 10)
	}
	return out
}

// figure is a number as evidence.
func figure[T ~int64 | ~float64](name string, v T, u unit.Unit, source string) check.Cite {
	return check.Cite{Name: name, Value: float64(v), Unit: u, Source: source}
}

// numbers returns settings as figures; where one cannot be told it reports
// why and answers false.
func numbers(s *fact.Set, out *check.Report, names ...string) ([]float64, bool) {
	c := fact.Get(s, pg.Settings)
	vs := make([]float64, len(names))
	for i, n := range names {
		v, ok := c.Number(n)
		if !ok {
			why := c.Why(n)
			if why == "" {
				why = "setting " + n + " is not a figure that can be read"
			}
			out.Unknown(server, why)
			return nil, false
		}
		vs[i] = v
	}
	return vs, true
}

// told says whether the settings can be told, and reports why where one cannot.
func told(c pg.Config, out *check.Report, names ...string) bool {
	for _, n := range names {
		if why := c.Why(n); why != "" {
			out.Unknown(server, why)
			return false
		}
	}
	return true
}

// here says whether the server runs on the machine whose memory, CPUs and
// disks are in the facts, and reports it where not.
func here(s *fact.Set, out *check.Report) bool {
	same := fact.Get(s, pg.Servers).Same
	switch {
	case !same.OK():
		out.Unknown(server, "whether the server runs on this machine could not be told: "+same.Because)
	case !same.Value:
		out.Unknown(server, "the server runs on another machine, whose memory, CPUs and disks are not known here; run headroom there")
	default:
		return true
	}
	return false
}

// usable is the memory that the server can use at all, in bytes: the
// machine's, or less if our control group has less.
func usable(m proc.Memory) float64 {
	if m.Limit.OK() && m.Limit.Value > 0 {
		return math.Min(float64(m.Total), float64(m.Limit.Value))
	}
	return float64(m.Total)
}

// cores is the number of CPUs that the server can use.
func cores(c proc.CPU) float64 {
	if c.Quota.OK() && c.Quota.Value > 0 {
		return math.Min(float64(c.Online), c.Quota.Value)
	}
	return float64(c.Online)
}

// walRoom is the free space where the write-ahead log lies, in bytes; ok is
// false if that is not known.
func walRoom(l place.Layout, mounts []block.Mount) (room float64, ok bool) {
	p, found := l.Find("wal")
	if !found || !p.Mount.OK() {
		return 0, false
	}
	for _, m := range mounts {
		if m.Point == p.Mount.Value && m.Avail.OK() {
			return float64(m.Avail.Value), true
		}
	}
	return 0, false
}

// megabytes writes a size for a setting: whole GB, else whole MB.
func megabytes(bytes float64) string {
	mb := math.Round(bytes / unit.MB)
	if mb >= 1024 && math.Mod(mb, 1024) == 0 {
		return fmt.Sprintf("%.0fGB", mb/1024)
	}
	return fmt.Sprintf("%.0fMB", mb)
}

// roundSize rounds a size to one that people write: 1, 2, 3, 4, 5, 6, 8, 10,
// 12, 16, 20, 24… of MB or GB; down, so that it stays within what was worked out.
func roundSize(bytes float64) float64 {
	steps := []float64{1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96, 128, 160, 192, 256, 320, 384, 512, 640, 768}
	best := float64(unit.MB)
	for _, scale := range []float64{unit.MB, unit.GB} {
		for _, s := range steps {
			if s*scale <= bytes*1.0001 {
				best = s * scale
			}
		}
	}
	return best
}

// times writes "5 of 6 checkpoints".
func times(n, of int64, noun string) string {
	return unit.Format(float64(n), unit.Count) + " of " + unit.Format(float64(of), unit.Count) + " " + noun
}

// more writes "One more table is" or "3 more tables are".
func more(n int, one, many string) string {
	if n == 1 {
		return "One more " + one
	}
	return fmt.Sprintf("%d more %s", n, many)
}

// standby reports that a question is one for the primary.
func standby(s *fact.Set, out *check.Report) bool {
	if fact.Get(s, pg.Servers).Recovery {
		out.Unknown(server, "this server is a standby: ask its primary")
		return true
	}
	return false
}
