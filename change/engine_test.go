package change

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"headroom/fail"
	"headroom/host"
)

func newJournal(t testing.TB) *Journal {
	t.Helper()
	d := t.TempDir()
	return OpenJournal(host.Dirs{State: filepath.Join(d, "state"), Run: filepath.Join(d, "run")})
}

func machine() *host.Fake {
	return &host.Fake{Files: map[string]string{
		"/etc/sysctl.d/99.conf":          "vm.swappiness = 60\n",
		"/proc/sys/vm/swappiness":        "60\n",
		"/sys/block/vda/queue/scheduler": "[mq-deadline] none\n",
		"/sys/block/vda/queue/rotation":  "1\n",
		"/etc/machine-id":                "m1\n",
	}}
}

func tuning() Change {
	return Change{Spec: Spec{ID: "disk.queue", Object: "vda"}, Subject: "disk vda", Steps: []Step{
		File{Path: "/etc/sysctl.d/90-headroom.conf", Content: "vm.swappiness = 10\n"},
		Value{Path: "/proc/sys/vm/swappiness", Value: "10"},
		Value{Path: "/sys/block/vda/queue/scheduler", Value: "none"},
		File{Path: "/etc/sysctl.d/99.conf", Absent: true},
		Value{Path: "/sys/block/vda/queue/rotation", Value: "0"},
	}}
}

func prepare(t testing.TB, r host.Reader, cs ...Change) *Plan {
	t.Helper()
	p, err := Prepare(context.Background(), r, cs...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func isState(t *testing.T, when string, got, want map[string]string) {
	t.Helper()
	if !maps.Equal(got, want) {
		t.Errorf("%s: machine holds %q, want %q", when, got, want)
	}
}

var ctx = context.Background()

func TestPlanChangesNothing(t *testing.T) {
	m := machine()
	before := maps.Clone(m.Files)
	m.Fail = func(op, object string) error { t.Errorf("plan did %s %s", op, object); return nil }
	p := prepare(t, m, tuning())
	isState(t, "after the plan", m.Files, before)
	if p.Nothing() || len(p.Steps()) != 5 || p.Restarts() {
		t.Errorf("plan = %+v", p)
	}
	rows := p.Changes[0].Steps[2].Rows()
	if len(rows) != 1 || rows[0] != (Row{"/sys/block/vda/queue/scheduler", "mq-deadline", "none"}) {
		t.Errorf("rows = %+v", rows)
	}
}

func TestPlanSurvivesItsFile(t *testing.T) {
	m := machine()
	p := prepare(t, m, tuning())
	var buf bytes.Buffer
	if err := p.Save(&buf); err != nil {
		t.Fatal(err)
	}
	saved := buf.String()
	q, err := LoadPlan(strings.NewReader(saved))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Apply(ctx, m, q, Options{Journal: newJournal(t)}); err != nil {
		t.Errorf("apply of the loaded plan: %v", err)
	}
	for what, bad := range map[string]string{
		"edited":        strings.Replace(saved, `"value": "none"`, `"value": "evil"`, 1),
		"unknown kind":  strings.Replace(saved, `"kind": "value"`, `"kind": "shell"`, 1),
		"unknown field": strings.Replace(saved, `"kind": "value"`, `"kind": "value", "then": "x"`, 1),
		"newer":         strings.Replace(saved, `"schema": 1`, `"schema": 2`, 1),
		"cut":           saved[:len(saved)/2],
		"other":         `{}`,
	} {
		if _, err := LoadPlan(strings.NewReader(bad)); fail.Code(err) != fail.Usage {
			t.Errorf("%s plan: %v", what, err)
		}
	}
}

func TestApplyAndRevert(t *testing.T) {
	m, j := machine(), newJournal(t)
	before := maps.Clone(m.Files)
	p := prepare(t, m, tuning())
	res, err := Apply(ctx, m, p, Options{Journal: j})
	if err != nil || res.Phase != Applied || !idForm.MatchString(res.ID) {
		t.Fatalf("apply = %+v, %v", res, err)
	}
	if m.Files["/sys/block/vda/queue/scheduler"] != "mq-deadline [none]\n" || m.Files["/etc/sysctl.d/90-headroom.conf"] == "" {
		t.Errorf("not applied: %q", m.Files)
	}
	if again := prepare(t, m, tuning()); !again.Nothing() {
		t.Errorf("planned again, there is something to do: %+v", again.Steps())
	}
	res2, err := Apply(ctx, m, prepare(t, m, tuning()), Options{Journal: j})
	if err != nil || res2.ID != "" {
		t.Errorf("nothing to do = %+v, %v", res2, err)
	}
	if _, err := Revert(ctx, m, res.ID, Options{Journal: j}); err != nil {
		t.Fatal(err)
	}
	isState(t, "after revert", m.Files, before)
	res3, err := Revert(ctx, m, res.ID, Options{Journal: j})
	if err != nil || len(res3.Notes) == 0 {
		t.Errorf("second revert = %+v, %v", res3, err)
	}
	es, err := j.List()
	if err != nil || len(es) != 1 || es[0].Phase != Reverted || len(es[0].Damage) != 0 {
		t.Errorf("journal = %+v, %v", es, err)
	}
}

func TestDriftIsRefused(t *testing.T) {
	m, j := machine(), newJournal(t)
	p := prepare(t, m, tuning())
	m.Files["/proc/sys/vm/swappiness"] = "30\n"
	before := maps.Clone(m.Files)
	_, err := Apply(ctx, m, p, Options{Journal: j})
	var moved *Moved
	if fail.Code(err) != fail.Drift || !errors.As(err, &moved) {
		t.Fatalf("apply = %v", err)
	}
	if len(moved.Rows) != 1 || moved.Rows[0] != (MovedRow{"/proc/sys/vm/swappiness", [3]string{"60", "30", "10"}}) {
		t.Errorf("rows = %+v", moved.Rows)
	}
	isState(t, "after the refusal", m.Files, before)
	if es, _ := j.List(); len(es) != 0 {
		t.Errorf("a refused apply left a journal: %+v", es)
	}
	m.Files["/proc/sys/vm/swappiness"] = "60\n"
	m.Files["/etc/machine-id"] = "m2\n"
	if _, err := Apply(ctx, m, p, Options{Journal: j}); fail.Code(err) != fail.Drift {
		t.Errorf("another machine: %v", err)
	}
}

func TestForeignEditStopsRevert(t *testing.T) {
	m, j := machine(), newJournal(t)
	before := maps.Clone(m.Files)
	res, err := Apply(ctx, m, prepare(t, m, tuning()), Options{Journal: j})
	if err != nil {
		t.Fatal(err)
	}
	m.Files["/proc/sys/vm/swappiness"] = "1\n"
	held := maps.Clone(m.Files)
	_, err = Revert(ctx, m, res.ID, Options{Journal: j})
	var moved *Moved
	if !errors.As(err, &moved) || len(moved.Rows) != 1 || moved.Rows[0].Values != [3]string{"60", "10", "1"} {
		t.Fatalf("revert = %v", err)
	}
	isState(t, "after the stop", m.Files, held)
	if _, err := Revert(ctx, m, res.ID, Options{Journal: j, Accept: []string{AcceptForeign}}); err != nil {
		t.Fatal(err)
	}
	isState(t, "after the forced revert", m.Files, before)
}

// A device that is gone must not keep the rest from being taken back, nor
// block later changes for ever.
func TestGoneObjectIsGivenUp(t *testing.T) {
	m, j := machine(), newJournal(t)
	before := maps.Clone(m.Files)
	res, err := Apply(ctx, m, prepare(t, m, tuning()), Options{Journal: j})
	if err != nil {
		t.Fatal(err)
	}
	delete(m.Files, "/sys/block/vda/queue/rotation")
	delete(before, "/sys/block/vda/queue/rotation")
	_, err = Revert(ctx, m, res.ID, Options{Journal: j})
	if fail.Code(err) != fail.Drift || !strings.Contains(err.Error(), "(absent)") || !strings.Contains(fail.HintOf(err), "--accept lost") {
		t.Fatalf("revert = %v; %s", err, fail.HintOf(err))
	}
	back, err := Revert(ctx, m, res.ID, Options{Journal: j, Accept: []string{AcceptLost}})
	if err != nil || back.Phase != Abandoned {
		t.Errorf("revert = %+v, %v", back, err)
	}
	isState(t, "after", m.Files, before)
}

// Every operation that fails, alone or for good, must end in before, or say
// with its status that it could not.
func TestEveryFailingOperation(t *testing.T) {
	for n := 1; ; n++ {
		m, j := machine(), newJournal(t)
		before := maps.Clone(m.Files)
		p := prepare(t, m, tuning())
		ops := 0
		m.Fail = func(op, object string) error {
			if ops++; ops == n {
				return fmt.Errorf("%s %s: injected", op, object)
			}
			return nil
		}
		res, err := Apply(ctx, m, p, Options{Journal: j})
		if err == nil {
			if n <= len(p.Steps()) {
				t.Fatalf("operation %d failed and the apply did not", n)
			}
			return
		}
		if fail.Code(err) != fail.Reverted || res.Phase != Reverted {
			t.Errorf("operation %d: %+v, %v", n, res, err)
		}
		isState(t, fmt.Sprintf("operation %d failed", n), m.Files, before)
	}
}

func TestCannotGoBack(t *testing.T) {
	m, j := machine(), newJournal(t)
	before := maps.Clone(m.Files)
	p := prepare(t, m, tuning())
	broken := true
	ops := 0
	m.Fail = func(op, object string) error {
		if ops++; broken && ops >= 3 {
			return errors.New("injected")
		}
		return nil
	}
	res, err := Apply(ctx, m, p, Options{Journal: j})
	if fail.Code(err) != fail.NotReverted || res.Phase != Failed || fail.HintOf(err) == "" {
		t.Fatalf("apply = %+v, %v", res, err)
	}
	if _, err := Apply(ctx, m, prepare(t, m, tuning()), Options{Journal: j}); fail.Code(err) != fail.Locked {
		t.Errorf("a new change began on top of a half one: %v", err)
	}
	broken = false
	found, err := Recover(ctx, m, Options{Journal: j})
	if err != nil || len(found) != 1 || found[0].Now != Reverted {
		t.Fatalf("recover = %+v, %v", found, err)
	}
	isState(t, "after recovery", m.Files, before)
}

// lying is a machine whose writes return success and do nothing.
type lying struct {
	*host.Fake
	about string
}

func (l lying) WriteValue(p, v string) error {
	if p == l.about {
		return nil
	}
	return l.Fake.WriteValue(p, v)
}

func (l lying) WriteFile(p string, b []byte, m fs.FileMode) error {
	if p == l.about {
		return nil
	}
	return l.Fake.WriteFile(p, b, m)
}

func TestSuccessIsReadNotBelieved(t *testing.T) {
	for _, p := range []string{"/sys/block/vda/queue/rotation", "/etc/sysctl.d/90-headroom.conf"} {
		m, j := machine(), newJournal(t)
		before := maps.Clone(m.Files)
		plan := prepare(t, m, tuning())
		_, err := Apply(ctx, lying{m, p}, plan, Options{Journal: j})
		if fail.Code(err) != fail.Reverted || !strings.Contains(err.Error(), "verify "+p) {
			t.Errorf("%s: %v", p, err)
		}
		isState(t, "after the lie about "+p, m.Files, before)
	}
}

// A program that succeeds and does nothing is noticed, too.
func TestProgramIsNotBelieved(t *testing.T) {
	m, j := machine(), newJournal(t)
	m.Looked = map[string]string{"systemctl is-active x": "inactive\n"}
	before := maps.Clone(m.Files)
	c := Change{Steps: Steps{Value{Path: "/proc/sys/vm/swappiness", Value: "10"}, Command{Name: "x", Do: []string{"systemctl", "start", "x"},
		Back: []string{"systemctl", "stop", "x"}, Check: []string{"systemctl", "is-active", "x"}, Gives: "active"}}}
	_, err := Apply(ctx, m, prepare(t, m, c), Options{Journal: j})
	if fail.Code(err) != fail.Reverted || !strings.Contains(err.Error(), `wanted "active", reads "inactive"`) {
		t.Errorf("apply = %v", err)
	}
	isState(t, "after", m.Files, before)
}

// coupled is a machine on which choosing a scheduler resets another value, as
// the kernel does.
type coupled struct{ *host.Fake }

func (c coupled) WriteValue(p, v string) error {
	err := c.Fake.WriteValue(p, v)
	if strings.HasSuffix(p, "/scheduler") {
		c.Files["/sys/block/vda/queue/nr_requests"] = "64\n"
	}
	return err
}

func TestCoupledValuesComeBack(t *testing.T) {
	m, j := machine(), newJournal(t)
	m.Files["/sys/block/vda/queue/nr_requests"] = "512\n"
	before := maps.Clone(m.Files)
	sched := Value{Path: "/sys/block/vda/queue/scheduler", Value: "none"}
	nr := Value{Path: "/sys/block/vda/queue/nr_requests", Value: "128"}
	c := coupled{m}
	res, err := Apply(ctx, c, prepare(t, c, Change{Steps: Steps{sched, nr}}), Options{Journal: j})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Revert(ctx, c, res.ID, Options{Journal: j}); err != nil {
		t.Fatal(err)
	}
	isState(t, "after revert", m.Files, before)
	// In the wrong order the second step undoes the first: noticed, taken back.
	_, err = Apply(ctx, c, prepare(t, c, Change{Steps: Steps{nr, sched}}), Options{Journal: j})
	if fail.Code(err) != fail.Reverted {
		t.Errorf("wrong order: %v", err)
	}
	isState(t, "after the wrong order", m.Files, before)
}

func TestInterruptedEndsInBefore(t *testing.T) {
	for n := range 5 {
		m, j := machine(), newJournal(t)
		before := maps.Clone(m.Files)
		p := prepare(t, m, tuning())
		stopped, stop := context.WithCancel(ctx)
		ops := 0
		m.Fail = func(string, string) error {
			if ops == n {
				stop()
			}
			ops++
			return nil
		}
		_, err := Apply(stopped, m, p, Options{Journal: j})
		if fail.Code(err) != fail.Interrupted {
			t.Errorf("interrupted at %d: %v", n, err)
		}
		isState(t, fmt.Sprintf("interrupted at %d", n), m.Files, before)
		stop()
	}
}

func TestFiftyAppliesAtOnce(t *testing.T) {
	root, j := t.TempDir(), newJournal(t)
	path := filepath.Join(root, "proc")
	if err := os.WriteFile(path, []byte("0\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	w := host.Open(host.Options{Root: root})
	var wg sync.WaitGroup
	codes := make(chan int, 50)
	plans := make([]*Plan, 50)
	for i := range plans {
		plans[i] = prepare(t, w, Change{Steps: Steps{Value{Path: "/proc", Value: fmt.Sprint(i + 1)}}})
	}
	for _, p := range plans {
		wg.Go(func() {
			_, err := Apply(ctx, w, p, Options{Journal: j})
			codes <- fail.Code(err)
		})
	}
	wg.Wait()
	close(codes)
	count := map[int]int{}
	for c := range codes {
		count[c]++
	}
	// One wins. The others find it running, or find its result.
	if count[fail.OK] != 1 || count[fail.OK]+count[fail.Locked]+count[fail.Drift] != 50 {
		t.Errorf("statuses = %v", count)
	}
	if es, err := j.List(); err != nil || len(es) != 1 || es[0].Phase != Applied {
		t.Errorf("journal = %+v, %v", es, err)
	}
}

func TestHoldLastsUntilRelease(t *testing.T) {
	m, j := machine(), newJournal(t)
	before := maps.Clone(m.Files)
	p := prepare(t, m, tuning())
	release, err := Hold(ctx, m, p, Options{Journal: j})
	if err != nil {
		t.Fatal(err)
	}
	if m.Files["/proc/sys/vm/swappiness"] != "10\n" {
		t.Error("not applied")
	}
	if _, err := Apply(ctx, m, p, Options{Journal: j}); fail.Code(err) != fail.Locked {
		t.Errorf("a change began during a hold: %v", err)
	}
	if found, err := Pending(j); err != nil || len(found) != 0 {
		t.Errorf("a live hold is pending: %+v, %v", found, err)
	}
	ended, stop := context.WithCancel(ctx)
	stop()
	if err := release(ended); err != nil {
		t.Fatal(err)
	}
	isState(t, "after the hold", m.Files, before)
	if nothing, err := Hold(ctx, m, prepare(t, m, Change{Steps: Steps{Value{Path: "/proc/sys/vm/swappiness", Value: "60"}}}), Options{Journal: j}); err != nil || nothing(ctx) != nil {
		t.Errorf("hold of nothing: %v", err)
	}
}

func TestPlanRefuses(t *testing.T) {
	m := machine()
	m.Links = map[string]string{"/etc/sysctl.d/99.conf": "/etc/sysctl.conf"}
	for what, s := range map[string]Steps{
		"link":      {File{Path: "/etc/sysctl.d/99.conf", Content: "x"}},
		"folder":    {File{Path: "/nowhere/x", Content: "x"}},
		"path":      {File{Path: "/etc/../x", Content: "x"}},
		"no choice": {Value{Path: "/sys/block/vda/queue/scheduler", Value: "bfq"}},
		"no file":   {Value{Path: "/sys/block/vdz/queue/scheduler", Value: "none"}},
		"no server": {Setting{Values: map[string]string{"work_mem": "8MB"}}},
		"twice":     {Value{Path: "/proc/sys/vm/swappiness", Value: "1"}, Value{Path: "/proc/sys/vm/swappiness", Value: "2"}},
	} {
		if _, err := Prepare(ctx, m, Change{Steps: s}); err == nil {
			t.Errorf("%s: planned", what)
		}
	}
	if _, err := Prepare(ctx, m); fail.Code(err) != fail.Usage {
		t.Errorf("no change: %v", err)
	}
}
