package postgres

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"headroom/probe/pg"
	"headroom/unit"
)

func TestEveryCheckIsDocumented(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range Topic.Checks {
		d := c.Doc
		for part, text := range map[string]string{"title": d.Title, "why": d.Why, "evidence": d.Evidence, "fix": d.Fix, "risk": d.Risk, "undo": d.Undo, "sources": strings.Join(d.Sources, "")} {
			if text == "" {
				t.Errorf("%s: its page has no %s", c.Name, part)
			}
		}
		if seen[c.Name] || !strings.HasPrefix(c.Name, "postgres.") || len(c.Needs) == 0 {
			t.Errorf("%s: twice, misnamed or without needs", c.Name)
		}
		seen[c.Name] = true
	}
	for _, c := range Topic.Checks {
		for _, q := range c.Quiet {
			if !seen[strings.TrimSuffix(q, "*")] {
				t.Errorf("%s is quieted by %s, which there is not", c.Name, q)
			}
		}
	}
}

func TestFixesDue(t *testing.T) {
	f := func(major int64, y int, m time.Month, d int, want int64) {
		t.Helper()
		if got := fixesDue(major, day(y, m, d)); got != want {
			t.Errorf("%d by %d-%d-%d: %d, want %d", major, y, m, d, got, want)
		}
	}
	f(15, 2022, 10, 20, 0) // 15.0
	f(15, 2022, 11, 23, 1) // 15.1 came on 2022-11-10
	f(15, 2023, 8, 30, 4)  // 15.4 came on 2023-08-10
	f(17, 2025, 2, 23, 2)  // 17.3, and 17.4 a week later
	f(13, 2030, 1, 1, 20)  // nothing after its end; 13.23 was the last
	f(99, 2030, 1, 1, 0)
}

func TestSizes(t *testing.T) {
	f := func(bytes float64, want string) {
		t.Helper()
		if got := megabytes(roundSize(bytes)); got != want {
			t.Errorf("%v = %s, want %s", bytes, got, want)
		}
	}
	f(6.4*unit.GB, "6GB")
	f(999*unit.MB, "768MB")
	f(10*unit.GB, "10GB")
	f(0, "1MB")
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.Float64Range(unit.MB, unit.TB/2).Draw(t, "bytes")
		r := roundSize(v)
		back, u, err := unit.Parse(megabytes(r))
		if r > v*1.001 || r < v/2 || err != nil || u != unit.Byte || back != r {
			t.Errorf("%v is rounded to %v, written %s", v, r, megabytes(r))
		}
	})
}

func TestLargerLogStaysWithinTheDisk(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.Float64Range(32*unit.MB, 64*unit.GB).Draw(t, "size")
		need := rapid.Float64Range(0, unit.TB).Draw(t, "need")
		room := rapid.Float64Range(0, unit.TB).Draw(t, "room")
		want, short := largerLog(size, need, room, true)
		if short {
			return
		}
		if want-size > room/3 || want < size || want > 10*unit.GB && want > 4*size {
			t.Errorf("size %v, need %v, room %v: %v", size, need, room, want)
		}
	})
}

func TestNearest(t *testing.T) {
	all := map[string]pg.Setting{"max_wal_size": {}, "min_wal_size": {}, "work_mem": {}}
	f := func(name, want string) {
		t.Helper()
		if got := nearest(name, all); got != want {
			t.Errorf("nearest(%q) = %q, want %q", name, got, want)
		}
	}
	f("max_wal_sise", "max_wal_size")
	f("workmem", "work_mem")
	f("zzz", "")
	if distance("kitten", "sitting") != 3 || distance("", "abc") != 3 || distance("abc", "abc") != 0 {
		t.Error("distance is wrong")
	}
}
