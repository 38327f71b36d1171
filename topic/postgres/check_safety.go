package postgres

import (
	"fmt"
	"math"
	"time"

	"headroom/change"
	"headroom/check"
	"headroom/fact"
	"headroom/probe/pg"
	"headroom/unit"
)

var settingsOnly = []fact.Any{pg.Settings}

var fsyncOff = &check.Check{
	Name: "postgres.fsync",
	Doc: check.Doc{
		Title:    "fsync is off",
		Why:      "The server does not wait until anything is on disk: after a crash of the machine the data folder may be damaged beyond repair, not only short of the last transactions.",
		Evidence: "fsync.",
		Fix:      "fsync=on. For speed without that risk: synchronous_commit=off per transaction, larger batches, or unlogged tables.",
		Risk:     "Commits wait for the disk: slower, as they should be.",
		Undo:     undoSetting,
		Sources:  []string{"S1", "https://www.postgresql.org/docs/current/runtime-config-wal.html#GUC-FSYNC"},
	},
	Needs: settingsOnly,
	Run:   whenOff("fsync", check.Danger, 1, "fsync is off: if this machine loses power or its kernel crashes, the whole data folder may be lost, not only the last transactions."),
}

var fullPageWrites = &check.Check{
	Name: "postgres.full-page-writes",
	Doc: check.Doc{
		Title:    "full_page_writes is off",
		Why:      "A page half written at a power loss cannot be repaired without its whole image in the log. It is safe to be off only on storage that writes 8 kB at once or not at all (ZFS, for one).",
		Evidence: "full_page_writes.",
		Fix:      "full_page_writes=on; save log volume with a larger max_wal_size and wal_compression instead.",
		Risk:     "More write-ahead log.",
		Undo:     undoSetting,
		Sources:  []string{"S1", "https://www.postgresql.org/docs/current/runtime-config-wal.html#GUC-FULL-PAGE-WRITES"},
	},
	Needs: settingsOnly,
	Quiet: []string{"postgres.fsync"},
	Run:   whenOff("full_page_writes", check.Danger, 0.9, "full_page_writes is off: a page half written at a power loss stays damaged, and nothing tells (safe only on a file system that never tears pages, such as ZFS)."),
}

// whenOff fires while a switch is off and proposes to switch it on.
func whenOff(name string, severity check.Severity, worth float64, summary string) func(*fact.Set, *check.Report) {
	return func(s *fact.Set, out *check.Report) {
		c := fact.Get(s, pg.Settings)
		switch {
		case c.Why(name) != "":
			out.Unknown(server, c.Why(name))
		case c.Off(name):
			out.Found(check.Finding{Subject: server, Severity: severity, Basis: check.Measured, Worth: worth, Summary: summary,
				Evidence: []check.Cite{cite(c, name)}, Fixes: []change.Spec{set(name, "on")}})
		}
	}
}

var synchronousCommit = &check.Check{
	Name: "postgres.synchronous-commit",
	Doc: check.Doc{
		Title:    "Commits are confirmed before they are on disk",
		Why:      "With synchronous_commit off, a crash loses the last transactions that clients were told are done: up to three times wal_writer_delay. Nothing is damaged. It is often right for some transactions, and seldom for all.",
		Evidence: "synchronous_commit as the server's default, and wal_writer_delay.",
		Fix:      "Set it per transaction where losing the last moments is fine, and leave it on for the server.",
		Risk:     "Commits wait for the disk again.",
		Undo:     undoSetting,
		Sources:  []string{"S1", "S12", "https://www.postgresql.org/docs/current/wal-async-commit.html"},
	},
	Needs: settingsOnly,
	Quiet: []string{"postgres.fsync"},
	Run: func(s *fact.Set, out *check.Report) {
		c := fact.Get(s, pg.Settings)
		if !told(c, out, "synchronous_commit") || !c.Off("synchronous_commit") {
			return
		}
		delay, _ := c.Number("wal_writer_delay")
		out.Found(check.Finding{Subject: server, Severity: check.Note, Basis: check.Measured, Worth: 0.3,
			Summary: fmt.Sprintf("synchronous_commit is off for the whole server: a crash loses what was committed in the last %s or so, though clients were told it is done. Nothing is damaged.",
				unit.Seconds(3*delay)),
			Evidence: []check.Cite{cite(c, "synchronous_commit"), cite(c, "wal_writer_delay")},
			Hint:     "If only some work can bear that, set it there: SET LOCAL synchronous_commit = off.",
			Fixes:    []change.Spec{set("synchronous_commit", "on")}})
	},
}

var checksums = &check.Check{
	Name: "postgres.checksums",
	Doc: check.Doc{
		Title:    "Pages carry no checksums",
		Why:      "Without checksums a page that the disk damaged is taken for data: it comes to light late, in wrong answers or in a backup that holds it as well. They cost a few percent at most. PostgreSQL 18 has them by default.",
		Evidence: "data_checksums.",
		Fix:      "Stop the server, run pg_checksums --enable, start it (about as long as reading all files). Or at the next upgrade, initdb --data-checksums.",
		Risk:     "The server is down meanwhile; standbys must be done at the same time.",
		Undo:     "pg_checksums --disable, with the server stopped.",
		Sources:  []string{"https://www.postgresql.org/docs/current/app-pgchecksums.html"},
	},
	Needs: []fact.Any{pg.Servers},
	Run: func(s *fact.Set, out *check.Report) {
		if fact.Get(s, pg.Servers).Checksums {
			return
		}
		out.Found(check.Finding{Subject: server, Severity: check.Note, Basis: check.Measured, Worth: 0.2,
			Summary:  "Pages carry no checksums: what the disk damages is taken for data.",
			Evidence: []check.Cite{{Name: "data_checksums", Value: "off", Source: "pg_settings"}},
			Hint:     "With the server stopped: pg_checksums --enable -D the data folder. It takes about as long as reading all files."})
	},
}

// ends is the day of each major version's last release.
// https://www.postgresql.org/support/versioning/
var ends = map[int64]time.Time{
	10: day(2022, 11, 10), 11: day(2023, 11, 9), 12: day(2024, 11, 21), 13: day(2025, 11, 13), 14: day(2026, 11, 12),
	15: day(2027, 11, 11), 16: day(2028, 11, 9), 17: day(2029, 11, 8), 18: day(2030, 11, 14),
}

func day(y int, m time.Month, d int) time.Time { return time.Date(y, m, d, 0, 0, 0, 0, time.UTC) }

var endOfLife = &check.Check{
	Name: "postgres.end-of-life",
	Doc: check.Doc{
		Title:    "The server's major version gets no more fixes",
		Why:      "A major version is fixed for five years. After that, security holes and data-loss bugs that are found stay open.",
		Evidence: "The server's version and the day the facts were taken. Fires after the last release, and as a note in the half year before.",
		Fix:      "Upgrade to a supported version: pg_upgrade (minutes with --link), or logical replication for next to no downtime.",
		Risk:     "An upgrade is a project: try it on a copy, read the release notes, keep the old data folder.",
		Undo:     "Keep the old server until the new one has proved itself.",
		Sources:  []string{"https://www.postgresql.org/support/versioning/"},
	},
	Needs: []fact.Any{pg.Servers},
	Run: func(s *fact.Set, out *check.Report) {
		srv := fact.Get(s, pg.Servers)
		end, known := ends[srv.Major]
		switch {
		case !known && srv.Major > pg.Newest:
			out.Unknown(server, fmt.Sprintf("PostgreSQL %d is newer than this Headroom, which knows versions up to %d", srv.Major, pg.Newest))
			return
		case !known:
			end = ends[10] // and earlier, at any rate
		}
		left := end.Sub(s.Taken)
		if left > 183*24*time.Hour {
			return
		}
		f := check.Finding{Subject: server, Basis: check.Measured,
			Evidence: []check.Cite{{Name: "server_version", Value: srv.Text, Source: "version()"}, {Name: "end of life", Value: end.Format(time.DateOnly), Source: "postgresql.org"}},
			Hint:     fmt.Sprintf("Plan the upgrade: PostgreSQL %d is fixed until %s.", pg.Newest, ends[pg.Newest].Format(time.DateOnly))}
		if left > 0 {
			f.Severity, f.Worth = check.Note, 0.3
			f.Summary = fmt.Sprintf("PostgreSQL %d gets its last fixes on %s, in %s.", srv.Major, end.Format(time.DateOnly), unit.Seconds(left.Seconds()))
		} else {
			f.Severity, f.Worth = check.Warning, math.Min(0.9, 0.4-left.Hours()/24/365/5)
			f.Summary = fmt.Sprintf("PostgreSQL %d got its last fixes %s %s: holes found since then stay open.", srv.Major, map[bool]string{true: "on", false: "long before"}[known], end.Format(time.DateOnly))
		}
		out.Found(f)
	},
}

// begins is the day of each major version's first release.
// https://www.postgresql.org/docs/release/
var begins = map[int64]time.Time{
	13: day(2020, 9, 24), 14: day(2021, 9, 30), 15: day(2022, 10, 13), 16: day(2023, 9, 14), 17: day(2024, 9, 26), 18: day(2025, 9, 25),
}

// fixesDue is the least number of fix releases that a major version has had by
// a given day: one each February, May, August and November, on the second
// Thursday or a week later. Extra ones only add to it.
func fixesDue(major int64, at time.Time) int64 {
	first, ok := begins[major]
	if !ok {
		return 0
	}
	if end := ends[major]; at.After(end) {
		at = end
	}
	n := int64(0)
	for y := first.Year(); y <= at.Year(); y++ {
		for _, m := range []time.Month{time.February, time.May, time.August, time.November} {
			if released := day(y, m, 22); released.After(first) && !released.After(at) {
				n++
			}
		}
	}
	return n
}

var minorRelease = &check.Check{
	Name: "postgres.minor-release",
	Doc: check.Doc{
		Title:    "The server is many fix releases behind",
		Why:      "Fix releases hold nothing but fixes, among them for data loss and security. Installing one takes a restart and no conversion.",
		Evidence: "The server's version, and how many fix releases there must have been by the day the facts were taken (four a year). Fires at four behind: a year.",
		Fix:      "Install the newest packages of the same major version and restart the server.",
		Risk:     "A restart. Read the release notes: a few ask for a REINDEX.",
		Undo:     "Install the former packages.",
		Sources:  []string{"https://www.postgresql.org/support/versioning/", "https://www.postgresql.org/developer/roadmap/"},
	},
	Needs: []fact.Any{pg.Servers},
	Run: func(s *fact.Set, out *check.Report) {
		srv := fact.Get(s, pg.Servers)
		minor := srv.Version % 10000
		behind := fixesDue(srv.Major, s.Taken) - minor
		if behind < 4 {
			return
		}
		out.Found(check.Finding{Subject: server, Severity: check.Warning, Basis: check.Measured, Worth: math.Min(0.5, 0.05*float64(behind)),
			Summary:  fmt.Sprintf("The server is %d.%d, at least %d fix releases (%s of fixes) behind.", srv.Major, minor, behind, years(behind)),
			Evidence: []check.Cite{{Name: "server_version", Value: srv.Text, Source: "version()"}},
			Hint:     "Install the newest packages of this major version and restart the server."})
	},
}

func years(quarters int64) string {
	if y := quarters / 4; y > 1 {
		return fmt.Sprintf("%d years", y)
	}
	return "a year"
}
