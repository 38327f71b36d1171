package change

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"headroom/fail"
	"headroom/host"
)

// written applies a small change and returns its journal's bytes.
func written(t testing.TB) (m *host.Fake, j *Journal, id string, data []byte) {
	m, j = machine(), newJournal(t)
	res, err := Apply(ctx, m, prepare(t, m, Change{Spec: Spec{ID: "t.t"}, Steps: Steps{
		Value{Path: "/proc/sys/vm/swappiness", Value: "10"}, File{Path: "/etc/sysctl.d/99.conf", Absent: true}}}), Options{Journal: j})
	if err != nil {
		t.Fatal(err)
	}
	data, err = os.ReadFile(j.file(res.ID))
	if err != nil {
		t.Fatal(err)
	}
	return m, j, res.ID, data
}

func TestTruncatedAtEachLength(t *testing.T) {
	_, _, id, data := written(t)
	for n := range data {
		e := newEntry(id, data[:n])
		if len(e.Damage) != 0 {
			t.Fatalf("cut at %d: damage %q: a torn end is no damage", n, e.Damage)
		}
		whole := bytes.Count(data[:n], []byte("\n"))
		if data[n] == '\n' {
			whole++ // complete but for its line break
		}
		if (e.Plan != nil) != (whole >= 1) || whole == 0 && e.Phase != Void {
			t.Fatalf("cut at %d: %d whole lines, phase %s", n, whole, e.Phase)
		}
	}
}

func TestEachByteFlipped(t *testing.T) {
	_, _, id, data := written(t)
	whole := newEntry(id, data)
	for i := range data {
		for _, mask := range []byte{1, 0x80} {
			bad := bytes.Clone(data)
			bad[i] ^= mask
			e := newEntry(id, bad)
			if e.Plan == nil {
				t.Fatalf("byte %d: the plan is lost", i)
			}
			if lost := len(whole.Records) - len(e.Records); lost > 1 {
				t.Fatalf("byte %d: %d records are lost", i, lost)
			}
			if len(e.Damage) == 0 && !e.torn {
				t.Fatalf("byte %d: not told", i)
			}
		}
	}
}

// A damaged or cut journal must still lead to before or after, and nothing of
// it may be deleted.
func TestRecoverFromDamage(t *testing.T) {
	m, j, id, data := written(t)
	before := maps.Clone(machine().Files)
	after := maps.Clone(m.Files)
	second := bytes.IndexByte(data, '\n') + 1
	for n := second; n < len(data); n += 7 {
		maps.Copy(m.Files, after)
		if err := os.WriteFile(j.file(id), data[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Recover(ctx, m, Options{Journal: j}); err != nil {
			t.Fatalf("cut at %d: %v", n, err)
		}
		if !maps.Equal(m.Files, before) && !maps.Equal(m.Files, after) {
			// A file that is gone is not in after.
			t.Fatalf("cut at %d: %q", n, m.Files)
		}
		m.Files = maps.Clone(after)
	}
	bad := bytes.Clone(data)
	bad[len(bad)-20] ^= 4 // in the last record: looks as if it were not finished
	if err := os.WriteFile(j.file(id), bad, 0o600); err != nil {
		t.Fatal(err)
	}
	found, err := Recover(ctx, m, Options{Journal: j})
	if err != nil || len(found) != 2 || !strings.Contains(found[0].Text, "damaged") || found[1].Now != Applied {
		t.Errorf("recover = %+v, %v", found, err)
	}
	kept, err := os.ReadFile(filepath.Join(j.dir, "damaged", id+".jsonl"))
	if err != nil || !bytes.Equal(kept, bad) {
		t.Errorf("no copy of the damaged file: %v", err)
	}
	if p, err := Pending(j); err != nil || len(p) != 0 {
		t.Errorf("told again: %+v, %v", p, err)
	}
}

func TestLostPlanIsToldAndClosed(t *testing.T) {
	m, j, id, data := written(t)
	lines := bytes.SplitAfter(data, []byte("\n"))
	if err := os.WriteFile(j.file(id), bytes.Join(lines[2:], nil), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Revert(ctx, m, id, Options{Journal: j})
	if err == nil || !strings.Contains(fail.HintOf(err), AcceptLost) {
		t.Fatalf("revert = %v", err)
	}
	res, err := Revert(ctx, m, id, Options{Journal: j, Accept: []string{AcceptLost}})
	if err != nil || res.Phase != Abandoned {
		t.Errorf("revert = %+v, %v", res, err)
	}
}

// A failed write or fsync of the journal stops the change and takes it back;
// the file is not written to again.
func TestJournalCannotBeWritten(t *testing.T) {
	for n := 1; n <= 8; n++ {
		for _, op := range []string{"write", "sync"} {
			m, j := machine(), newJournal(t)
			before := maps.Clone(m.Files)
			p := prepare(t, m, Change{Steps: Steps{Value{Path: "/proc/sys/vm/swappiness", Value: "10"}, File{Path: "/etc/sysctl.d/99.conf", Absent: true}}})
			writes, syncs, failed := 0, 0, false
			j.write = func(f *os.File, b []byte) error {
				if writes++; failed {
					t.Errorf("%s %d: written again after the failure", op, n)
				}
				if failed = op == "write" && writes == n; failed {
					_, _ = f.Write(b[:len(b)/2])
					return errors.New("injected: no space")
				}
				_, err := f.Write(b)
				return err
			}
			j.sync = func(f *os.File) error {
				if syncs++; op == "sync" && syncs == n {
					failed = true
					return errors.New("injected: bad fsync")
				}
				return f.Sync()
			}
			res, err := Apply(ctx, m, p, Options{Journal: j})
			if !failed {
				return // more operations than there are
			}
			if err == nil || res.Phase == Applied {
				t.Fatalf("%s %d: applied all the same", op, n)
			}
			isState(t, op, m.Files, before)
			ok := OpenJournal(host.Dirs{State: filepath.Dir(j.dir), Run: j.run})
			if _, err := Recover(ctx, m, Options{Journal: ok}); err != nil {
				t.Errorf("%s %d: recover: %v", op, n, err)
			}
			isState(t, op+", recovered", m.Files, before)
			if _, err := Apply(ctx, m, prepare(t, m, tuning()), Options{Journal: ok}); err != nil {
				t.Errorf("%s %d: the next change: %v", op, n, err)
			}
		}
	}
}

func TestIDsAreSortedAndFree(t *testing.T) {
	j := newJournal(t)
	last := ""
	for range 5 {
		l, err := j.create(time.Date(2026, 11, 20, 23, 59, 59, 0, time.UTC), Record{Type: recPlan})
		if err != nil {
			t.Fatal(err)
		}
		if !idForm.MatchString(l.id) || l.id <= last {
			t.Errorf("id %s after %s", l.id, last)
		}
		last = l.id
	}
	if last != "20261121-0003" {
		t.Errorf("last id = %s", last)
	}
	for _, bad := range []string{"", "../../etc/passwd", "20261120-zzzz"} {
		if _, err := j.Get(bad); fail.Code(err) != fail.Usage {
			t.Errorf("get %q: %v", bad, err)
		}
	}
	if _, err := j.Get("20001120-0000"); !errors.Is(err, fail.ErrAbsent) {
		t.Errorf("no such change: %v", err)
	}
}

// The first released form of the journal must be readable, and revertible,
// for ever.
func TestFirstFormatOpens(t *testing.T) {
	const id = "20261120-9a5c"
	data, err := os.ReadFile("testdata/journal-1/" + id + ".jsonl")
	if err != nil {
		t.Fatal(err)
	}
	m, j := machine(), newJournal(t)
	before := maps.Clone(m.Files)
	for _, s := range tuning().Steps {
		if err := s.Apply(ctx, m); err != nil {
			t.Fatal(err)
		}
	}
	if err := makeDir(j.dir); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(j.file(id), data, 0o600); err != nil {
		t.Fatal(err)
	}
	e, err := j.Get(id)
	if err != nil || e.Phase != Applied || len(e.Damage) != 0 || e.torn {
		t.Fatalf("entry = %+v, %v", e, err)
	}
	if _, err := Revert(ctx, m, id, Options{Journal: j}); err != nil {
		t.Fatal(err)
	}
	isState(t, "after the revert", m.Files, before)
}

func FuzzJournal(f *testing.F) {
	_, _, id, data := written(f)
	f.Add(data)
	f.Add([]byte(lineHead + "00000000" + lineMid + "}"))
	f.Add([]byte("\n\n{\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		e := newEntry(id, b)
		if e.Plan == nil && e.Phase != Void && e.Phase != Unreadable {
			t.Errorf("phase %s without a plan", e.Phase)
		}
		_ = e.unsettled(time.Now())
	})
}

func FuzzPlan(f *testing.F) {
	var buf bytes.Buffer
	if err := prepare(f, machine(), tuning()).Save(&buf); err != nil {
		f.Fatal(err)
	}
	f.Add(buf.Bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		if p, err := LoadPlan(bytes.NewReader(b)); err == nil {
			_ = p.Title()
			for _, s := range p.Steps() {
				_ = s.Rows()
			}
		}
	})
}
