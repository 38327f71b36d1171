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
			"and the log written is enough to explain them (so that backups and CREATE DATABASE, which also request checkpoints, do not count).",
		Fix:     "Raise max_wal_size to what the measured rate writes in checkpoint_timeout, times 1 + checkpoint_completion_target; at most a quarter of the free space there, and at most 10 GB or four times the present value in one go.",
		Risk:    "That much disk space for the write-ahead log. Recovery after a crash takes longer: it reads up to that much log (1 GB takes some 5…20 s).",
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
	size, timeout, target := v[0], v[1], v[2]
	cp, wal := fact.Get(s, pg.Checkpoints), fact.Get(s, pg.WAL)
	// The server starts a checkpoint so that the log of two stays in bounds.
	perCheckpoint := size / (1 + target)
	explained := math.Min(float64(cp.Requested), math.Floor(1.5*wal.Rate()*cp.Since/perCheckpoint))
	if explained < 2 || explained < float64(cp.All())/4 {
		return
	}
	srv, c := fact.Get(s, pg.Servers), fact.Get(s, pg.Settings)
	every := cp.Since / float64(cp.All())
	share := wal.ImageShare(srv.BlockSize)
	compressed := !c.Off("wal_compression")
	f := check.Finding{Subject: server, Severity: check.Advice, Basis: check.Measured,
		Evidence: []check.Cite{cite(c, "max_wal_size"), cite(c, "checkpoint_timeout"),
			figure("checkpoints requested", cp.Requested, unit.Count, "pg_stat_checkpointer or pg_stat_bgwriter"),
			figure("checkpoints by time", cp.Timed, unit.Count, "pg_stat_checkpointer or pg_stat_bgwriter"),
			figure("log written per second", wal.Rate(), unit.BytesPerSecond, "pg_stat_wal wal_bytes"),
			figure("whole pages logged", wal.Images, unit.Count, "pg_stat_wal wal_fpi")}}
	f.Summary = fmt.Sprintf("%s in %s came because the write-ahead log was full (max_wal_size is %s): one every %s instead of every %s",
		times(cp.Requested, cp.All(), "checkpoints"), unit.Seconds(cp.Since), c.Shown("max_wal_size"), unit.Seconds(every), c.Shown("checkpoint_timeout"))
	if !compressed {
		f.Summary += fmt.Sprintf("; up to %s of the log is pages written whole because of that", unit.Format(share, unit.Ratio))
	}
	f.Summary += "."
	f.Worth = math.Min(0.9, 0.1+0.7*share*float64(cp.Requested)/float64(cp.All()))
	if every < timeout/2 && (share >= 0.3 || compressed) {
		f.Severity = check.Warning
	}
	room, known := walRoom(fact.Get(s, place.Layouts), fact.Get(s, block.Mounts))
	want, short := largerLog(size, math.Max(wal.Rate(), recent(cp))*timeout*(1+target), room, known)
	switch {
	case short:
		f.Hint = fmt.Sprintf("There is no room for a larger log: %s are free where it lies. Give it a file system of its own first.", unit.Format(room, unit.Byte))
	default:
		f.Fixes = append(f.Fixes, set("max_wal_size", megabytes(want)))
		f.Try = prove(f.Fixes[0], "pg.upsert")
		f.Hint = fmt.Sprintf("Takes effect at once. The log may then take %s of disk", unit.Format(want, unit.Byte))
		if !known {
			f.Hint += " (how much is free there is not known here)"
		}
		f.Hint += "."
	}
	out.Found(f)
}

// recent is the rate at which log was written since the last checkpoint, in
// bytes per second; 0 if not known or the time is too short to tell.
func recent(cp pg.Checkpoint) float64 {
	if !cp.Last.OK() || !cp.WALSince.OK() || cp.Last.Value < 5 {
		return 0
	}
	return float64(cp.WALSince.Value) / cp.Last.Value
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
		busy := c.Off("wal_compression") && share >= 0.3 && wal.Rate() >= unit.MB && cp.Timed > cp.Requested && cp.All() >= 3
		if v[0] >= 600 || v[0] >= 120 && !busy {
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
			f.Evidence = append(f.Evidence, figure("whole pages logged", wal.Images, unit.Count, "pg_stat_wal wal_fpi"))
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
		if standby(s, out) || !c.Off("wal_compression") || share < 0.3 || wal.Rate() < unit.MB {
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
			Evidence: []check.Cite{cite(c, "wal_compression"), figure("whole pages logged", wal.Images, unit.Count, "pg_stat_wal wal_fpi"),
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
		if !ok || standby(s, out) {
			return
		}
		c, wal := fact.Get(s, pg.Settings), fact.Get(s, pg.WAL)
		perSecond := float64(wal.Full) / math.Max(wal.Since, 1)
		if perSecond < 1 || v[0] >= 64*unit.MB {
			return
		}
		fix := set("wal_buffers", "64MB")
		out.Found(check.Finding{Subject: server, Severity: check.Advice, Basis: check.Measured, Worth: math.Min(0.2, 0.02*perSecond),
			Summary: fmt.Sprintf("The buffers of the write-ahead log (%s) were full %s times in %s: each time a session had to write before it could go on.",
				c.Shown("wal_buffers"), unit.Format(float64(wal.Full), unit.Count), unit.Seconds(wal.Since)),
			Evidence: []check.Cite{cite(c, "wal_buffers"), figure("times full", wal.Full, unit.Count, "pg_stat_wal wal_buffers_full")},
			Fixes:    []change.Spec{fix}, Try: prove(fix, "pg.upsert")})
	},
}
