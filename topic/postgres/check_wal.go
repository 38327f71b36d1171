package postgres

import (
	"fmt"
	"math"

	"headroom/change"
	"headroom/check"
	"headroom/fact"
	"headroom/probe/block"
	"headroom/probe/pg"
	"headroom/probe/place"
	"headroom/unit"
)

var walNeeds = []fact.Any{pg.Servers, pg.Settings, pg.Checkpoints, pg.WAL}

var maxWALSize = &check.Check{
	Name: "postgres.max-wal-size",
	Doc: check.Doc{
		Title: "Checkpoints come because the write-ahead log is full, not because it is time",
		Why: "The first change of a page after a checkpoint logs the whole page (8 kB for a row of 100 bytes). With checkpoints every few seconds most of the log is such pages, " +
			"and the same pages are written to disk again and again. In the notes that this tool follows, max_wal_size of 10 GB instead of 1 GB brought upserts from 50 to 80…90 thousand rows/s and disk writes from 500 to 50 MB/s (S1).",
		Evidence: "Checkpoints counted by reason, the bytes and whole pages in the write-ahead log, and max_wal_size. Fires when at least two checkpoints, and more than a quarter of all, were requested, " +
			"and the log written is enough to explain them (so that backups and CREATE DATABASE, which also request checkpoints, do not count). " +
			"Before the third checkpoint it also fires if the log written since the last one will fill max_wal_size in less than half the time.",
		Fix:     "Raise max_wal_size to what the measured rate writes in checkpoint_timeout, times 1 + checkpoint_completion_target; at most a quarter of the free space there, and at most 10 GB or four times the present value in one go.",
		Risk:    "That much disk space for the write-ahead log. Recovery after a crash takes longer: it reads up to that much log.",
		Undo:    undoSetting,
		Sources: []string{"S1", "S21", "https://www.postgresql.org/docs/current/wal-configuration.html"},
	},
	Needs: append([]fact.Any{place.Layouts, block.Mounts}, walNeeds...),
	Run:   runMaxWALSize,
}

func runMaxWALSize(s *fact.Set, out *check.Report) {
	if standby(s, out) {
		return
	}
	v, ok := numbers(s, out, "max_wal_size", "checkpoint_timeout", "checkpoint_completion_target")
	if !ok {
		return
	}
	l := logLoad{size: v[0], timeout: v[1], target: v[2], cp: fact.Get(s, pg.Checkpoints), wal: fact.Get(s, pg.WAL),
		page: fact.Get(s, pg.Servers).BlockSize, compressed: !fact.Get(s, pg.Settings).Off("wal_compression")}
	l.recent, l.window = recent(l.cp, fact.Get(s, pg.Servers).Uptime)
	c := fact.Get(s, pg.Settings)
	f := check.Finding{Subject: server, Severity: check.Advice, Basis: check.Measured,
		Evidence: []check.Cite{cite(c, "max_wal_size"), cite(c, "checkpoint_timeout"),
			figure("checkpoints requested", l.cp.Requested, unit.Count, "pg_stat_checkpointer or pg_stat_bgwriter"),
			figure("checkpoints by time", l.cp.Timed, unit.Count, "pg_stat_checkpointer or pg_stat_bgwriter"),
			figure("log written per second", math.Max(l.wal.Rate(), l.recent), unit.BytesPerSecond, "pg_stat_wal wal_bytes, pg_current_wal_lsn()"),
		}}
	if l.wal.Images.OK() {
		f.Evidence = append(f.Evidence, figure("whole pages logged", l.wal.Images.Value, unit.Count, "pg_stat_wal wal_fpi"))
	}
	switch {
	case l.requested():
		l.tellRequested(&f, c)
	case l.filling():
		l.tellFilling(&f, c)
	default:
		return
	}
	l.propose(&f, s)
	out.Found(f)
}

// logLoad is how the write-ahead log is used. Sizes in bytes, times in seconds.
type logLoad struct {
	size, timeout, target float64
	cp                    pg.Checkpoint
	wal                   pg.WALStat
	page                  int64
	compressed            bool
	recent, window        float64 // bytes per second since the last checkpoint, and how long that is
}

// perCheckpoint is the log after which the server starts a checkpoint: the log
// of one and of what is written meanwhile must stay within size.
func (l logLoad) perCheckpoint() float64 { return l.size / (1 + l.target) }

// requested says whether the log being full brought about checkpoints: at
// least two, a quarter of all, and with log enough to explain them.
func (l logLoad) requested() bool {
	explained := math.Min(float64(l.cp.Requested), math.Floor(1.5*l.wal.Rate()*l.cp.Since/l.perCheckpoint()))
	return explained >= 2 && explained >= float64(l.cp.All())/4
}

// filling says whether the log will be full long before it is time. Where there
// is a history of checkpoints it says more than the last seconds do.
func (l logLoad) filling() bool {
	return l.cp.All() < 3 && l.window >= 20 && l.recent*l.timeout >= 2*l.perCheckpoint()
}

// usualImages stands for the share of whole pages where they are not counted
// (PostgreSQL 13): a middle value, only for the order of findings.
const usualImages = 0.5

func (l logLoad) tellRequested(f *check.Finding, c pg.Config) {
	every := l.cp.Since / float64(l.cp.All())
	share := l.wal.ImageShare(l.page)
	f.Summary = fmt.Sprintf("%s in %s came because the write-ahead log was full (max_wal_size is %s): one every %s instead of every %s",
		times(l.cp.Requested, l.cp.All(), "checkpoints"), unit.Seconds(l.cp.Since), c.Shown("max_wal_size"), unit.Seconds(every), c.Shown("checkpoint_timeout"))
	if !l.compressed && l.wal.Images.OK() {
		f.Summary += fmt.Sprintf("; up to %s of the log is pages written whole because of that", unit.Format(share, unit.Ratio))
	}
	f.Summary += "."
	if !l.wal.Images.OK() {
		share = usualImages
	}
	f.Worth = math.Min(0.9, 0.1+0.7*share*float64(l.cp.Requested)/float64(l.cp.All()))
	if every < l.timeout/2 && (share >= 0.3 || l.compressed) {
		f.Severity = check.Warning
	}
}

func (l logLoad) tellFilling(f *check.Finding, c pg.Config) {
	f.Summary = fmt.Sprintf("%s of write-ahead log a second were written in the last %s: at that rate max_wal_size (%s) is full, and a checkpoint comes, every %s instead of every %s.",
		unit.Format(l.recent, unit.Byte), unit.Seconds(l.window), c.Shown("max_wal_size"), unit.Seconds(l.perCheckpoint()/l.recent), c.Shown("checkpoint_timeout"))
	f.Worth = math.Min(0.4, 0.1*l.recent*l.timeout/l.perCheckpoint())
}

// propose adds the size that the measured rate needs, or says that there is
// no room for it.
func (l logLoad) propose(f *check.Finding, s *fact.Set) {
	room, known := walRoom(fact.Get(s, place.Layouts), fact.Get(s, block.Mounts))
	want, short := largerLog(l.size, math.Max(l.wal.Rate(), l.recent)*l.timeout*(1+l.target), room, known)
	if short {
		f.Hint = fmt.Sprintf("There is no room for a larger log: %s are free where it lies. Give it a file system of its own first.", unit.Format(room, unit.Byte))
		return
	}
	f.Fixes = append(f.Fixes, set("max_wal_size", megabytes(want)))
	f.Try = prove(f.Fixes[0], "pg.upsert")
	f.Hint = fmt.Sprintf("Takes effect at once. The log may then take %s of disk", unit.Format(want, unit.Byte))
	if !known {
		f.Hint += " (how much is free there is not known here)"
	}
	f.Hint += "."
}

// recent is the rate at which log was written since the last checkpoint began,
// or since the server started if that is later (it was clean then), in bytes
// per second, and the length of that time; 0 if it is not known.
func recent(cp pg.Checkpoint, uptime float64) (rate, window float64) {
	if !cp.Last.OK() || !cp.WALSince.OK() {
		return 0, 0
	}
	window = math.Min(cp.Last.Value, uptime)
	if window < 5 {
		return 0, 0
	}
	return float64(cp.WALSince.Value) / window, window
}

// largerLog works out max_wal_size: what is needed, in steps that a disk and
// the time of a recovery can bear. short means that there is no room for a
// size that would help.
func largerLog(size, need, room float64, known bool) (want float64, short bool) {
	want = math.Min(math.Max(need, 2*size), math.Max(10*unit.GB, 4*size))
	if known {
		want = math.Min(want, size+(room-size)/4)
		if want < 1.5*size {
			return 0, true
		}
	}
	return roundSize(want), false
}

var checkpointTimeout = &check.Check{
	Name: "postgres.checkpoint-timeout",
	Doc: check.Doc{
		Title:    "Checkpoints by time come so often that most of the log is whole pages",
		Why:      "Each checkpoint makes the next change of every page log that page whole. Where the log is not full but the time is short, the time is what costs.",
		Evidence: "checkpoint_timeout, checkpoints by reason, and the share of whole pages in a log of at least 1 MB/s. Fires below 10 minutes when that share is 30 % and more, or always below 2 minutes.",
		Fix:      "checkpoint_timeout=15min, and a max_wal_size that the log of that time fits in.",
		Risk:     "Recovery after a crash takes longer: up to 15 minutes of log are read again.",
		Undo:     undoSetting,
		Sources:  []string{"S1", "https://www.postgresql.org/docs/current/runtime-config-wal.html#GUC-CHECKPOINT-TIMEOUT"},
	},
	Needs: walNeeds,
	Quiet: []string{"postgres.max-wal-size"},
	Run: func(s *fact.Set, out *check.Report) {
		v, ok := numbers(s, out, "checkpoint_timeout")
		if !ok || standby(s, out) {
			return
		}
		c, cp, wal := fact.Get(s, pg.Settings), fact.Get(s, pg.Checkpoints), fact.Get(s, pg.WAL)
		share := wal.ImageShare(fact.Get(s, pg.Servers).BlockSize)
		lively := c.Off("wal_compression") && wal.Rate() >= unit.MB && cp.Timed > cp.Requested && cp.All() >= 3
		busy := lively && share >= 0.3
		if v[0] >= 600 || v[0] >= 120 && !busy {
			if v[0] < 600 && lively && !wal.Images.OK() {
				out.Unknown(server, "how much of the log is whole pages: "+wal.Images.Because)
			}
			return
		}
		f := check.Finding{Subject: server, Severity: check.Advice, Basis: check.ByRule, Worth: 0.1,
			Summary:  fmt.Sprintf("checkpoint_timeout is %s: every checkpoint makes the next change of each page log that page whole.", c.Shown("checkpoint_timeout")),
			Evidence: []check.Cite{cite(c, "checkpoint_timeout"), figure("log written per second", wal.Rate(), unit.BytesPerSecond, "pg_stat_wal wal_bytes")},
			Fixes:    []change.Spec{set("checkpoint_timeout", "15min")},
		}
		if busy {
			f.Basis, f.Worth = check.Measured, 0.5*share
			f.Summary = fmt.Sprintf("%s in %s came by time, every %s, and up to %s of the log (%s) is pages written whole because of that.",
				times(cp.Timed, cp.All(), "checkpoints"), unit.Seconds(cp.Since), c.Shown("checkpoint_timeout"), unit.Format(share, unit.Ratio), unit.Format(wal.Rate(), unit.BytesPerSecond))
			f.Evidence = append(f.Evidence, figure("whole pages logged", wal.Images.Value, unit.Count, "pg_stat_wal wal_fpi"))
		}
		f.Try = prove(f.Fixes[0], "pg.upsert")
		out.Found(f)
	},
}

var completionTarget = &check.Check{
	Name: "postgres.checkpoint-completion-target",
	Doc: check.Doc{
		Title:    "Checkpoints are written in a rush",
		Why:      "A checkpoint's pages are spread over this share of the time to the next one. At 0.5, the default up to PostgreSQL 13, they are written twice as fast as they need to be, and queries wait behind them.",
		Evidence: "checkpoint_completion_target. Fires below 0.8.",
		Fix:      "checkpoint_completion_target=0.9, the default since PostgreSQL 14.",
		Risk:     "Slightly more log to read in a recovery.",
		Undo:     undoSetting,
		Sources:  []string{"https://www.postgresql.org/docs/14/release-14.html", "https://www.postgresql.org/docs/current/wal-configuration.html"},
	},
	Needs: []fact.Any{pg.Servers, pg.Settings, pg.Checkpoints},
	Run: func(s *fact.Set, out *check.Report) {
		v, ok := numbers(s, out, "checkpoint_completion_target")
		if !ok || v[0] >= 0.8 {
			return
		}
		c, cp := fact.Get(s, pg.Settings), fact.Get(s, pg.Checkpoints)
		fix := set("checkpoint_completion_target", "0.9")
		out.Found(check.Finding{Subject: server, Severity: check.Advice, Basis: check.ByRule, Worth: 0.08,
			Summary: fmt.Sprintf("checkpoint_completion_target is %s: a checkpoint's pages (%s written so far) are pushed out in %s of the time there is.",
				c.Shown("checkpoint_completion_target"), unit.Format(float64(cp.Buffers), unit.Count), unit.Format(v[0], unit.Ratio)),
			Evidence: []check.Cite{cite(c, "checkpoint_completion_target"), figure("pages written by checkpoints", cp.Buffers, unit.Count, "pg_stat_checkpointer or pg_stat_bgwriter")},
			Fixes:    []change.Spec{fix}, Try: prove(fix, "pg.tpcb")})
	},
}

var walCompression = &check.Check{
	Name: "postgres.wal-compression",
	Doc: check.Doc{
		Title:    "Whole pages in the write-ahead log are not compressed",
		Why:      "Whole pages compress to a half or less with lz4. Where they are a large part of the log, that saves as much writing, and traffic to standbys, for a little CPU.",
		Evidence: "wal_compression, and the share of whole pages in a log of at least 1 MB/s. Fires from 30 % up. Quiet where checkpoints come too often: cure that first.",
		Fix:      "wal_compression=lz4 (PostgreSQL 15 and newer, if built with it, else pglz).",
		Risk:     "CPU time of the writing session: little with lz4, noticeable with pglz. Old log stays readable.",
		Undo:     undoSetting,
		Sources:  []string{"https://www.postgresql.org/docs/current/runtime-config-wal.html#GUC-WAL-COMPRESSION"},
	},
	Needs: walNeeds,
	Quiet: []string{"postgres.max-wal-size", "postgres.checkpoint-timeout"},
	Run: func(s *fact.Set, out *check.Report) {
		c, wal := fact.Get(s, pg.Settings), fact.Get(s, pg.WAL)
		share := wal.ImageShare(fact.Get(s, pg.Servers).BlockSize)
		if standby(s, out) || !told(c, out, "wal_compression") || !c.Off("wal_compression") || wal.Rate() < unit.MB {
			return
		}
		if !wal.Images.OK() {
			out.Unknown(server, "how much of the log is whole pages: "+wal.Images.Because)
			return
		}
		if share < 0.3 {
			return
		}
		method := "on"
		for _, choice := range c.All["wal_compression"].Choices {
			if choice == "lz4" {
				method = "lz4"
			}
		}
		fix := set("wal_compression", method)
		out.Found(check.Finding{Subject: server, Severity: check.Advice, Basis: check.Measured, Worth: 0.25 * share,
			Summary: fmt.Sprintf("Up to %s of the write-ahead log (%s) is whole pages, and they are not compressed.",
				unit.Format(share, unit.Ratio), unit.Format(wal.Rate(), unit.BytesPerSecond)),
			Evidence: []check.Cite{cite(c, "wal_compression"), figure("whole pages logged", wal.Images.Value, unit.Count, "pg_stat_wal wal_fpi"),
				figure("log written", wal.Bytes, unit.Byte, "pg_stat_wal wal_bytes")},
			Fixes: []change.Spec{fix}, Try: prove(fix, "pg.upsert")})
	},
}

var walBuffers = &check.Check{
	Name: "postgres.wal-buffers",
	Doc: check.Doc{
		Title:    "Sessions write the log themselves because its buffers are full",
		Why:      "Log waits in wal_buffers (at most 16 MB by default) until it is written. When they are full a session that only wants to add a record has to write first, while it holds everybody else up.",
		Evidence: "How often the buffers were full. Fires from once a second on.",
		Fix:      "wal_buffers=64MB.",
		Risk:     "A restart; 64 MB of memory.",
		Undo:     undoSetting,
		Sources:  []string{"https://www.postgresql.org/docs/current/monitoring-stats.html#MONITORING-PG-STAT-WAL-VIEW"},
	},
	Needs: walNeeds,
	Run: func(s *fact.Set, out *check.Report) {
		v, ok := numbers(s, out, "wal_buffers")
		c, wal := fact.Get(s, pg.Settings), fact.Get(s, pg.WAL)
		if !ok || standby(s, out) || v[0] >= 64*unit.MB {
			return
		}
		if !wal.Full.OK() {
			out.Unknown(server, "how often the buffers were full: "+wal.Full.Because)
			return
		}
		perSecond := float64(wal.Full.Value) / math.Max(wal.Since, 1)
		if perSecond < 1 {
			return
		}
		fix := set("wal_buffers", "64MB")
		out.Found(check.Finding{Subject: server, Severity: check.Advice, Basis: check.Measured, Worth: math.Min(0.2, 0.02*perSecond),
			Summary: fmt.Sprintf("The buffers of the write-ahead log (%s) were full %s times in %s: each time a session had to write before it could go on.",
				c.Shown("wal_buffers"), unit.Format(float64(wal.Full.Value), unit.Count), unit.Seconds(wal.Since)),
			Evidence: []check.Cite{cite(c, "wal_buffers"), figure("times full", wal.Full.Value, unit.Count, "pg_stat_wal wal_buffers_full")},
			Fixes:    []change.Spec{fix}, Try: prove(fix, "pg.upsert")})
	},
}
