package lab

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"headroom/fail"
	"headroom/testkit/need"
	"headroom/trial"
)

// counting is a lab on real servers: two arms share one, the third has other
// settings.
func counting(during func(arm string)) *Lab {
	arm := func(name string, settings map[string]string) Arm {
		return Arm{Name: name, Doc: "adds a row", Settings: settings, Run: func(ctx context.Context, t *Turn) error {
			if err := t.Exec(ctx, "truncate work"); err != nil {
				return err
			}
			if during != nil {
				during(name)
			}
			err := t.Time(ctx, func(ctx context.Context) (int64, error) {
				return 100, t.Exec(ctx, "insert into work select i from generate_series(1, 100) i")
			})
			if err != nil {
				return err
			}
			c, err := t.Connect(ctx)
			if err != nil {
				return err
			}
			defer c.Close(ctx)
			var app, wm, n string
			if err := c.QueryRow(ctx, "select current_setting('application_name'), current_setting('work_mem'), (select count(*) from work)::text").Scan(&app, &wm, &n); err != nil {
				return err
			}
			t.Same("rows", n)
			t.Same("application", app)
			t.Figure("work_mem", map[string]float64{"4MB": 4, "9MB": 9}[wm])
			return nil
		}}
	}
	return &Lab{Name: "counting", Uses: trial.Server, Measures: []trial.Measure{Rate("rows/s"), Seconds, WAL, {Name: "work_mem"}},
		New: func(map[string]string) (Experiment, error) {
			return Experiment{Arms: []Arm{arm("one", nil), arm("two", nil), arm("large", map[string]string{"work_mem": "9MB"})},
				Settings: map[string]string{"autovacuum": "off"},
				Setup: func(ctx context.Context, s *Stand, _ func(string)) error {
					return s.Exec(ctx, "create table work (n int)")
				}}, nil
		}}
}

func TestArmsWithEqualSettingsShareAServer(t *testing.T) {
	need.Have(t, "pg")
	running := 0
	r, err := Run(t.Context(), counting(func(string) { running = max(running, len(servers(t))) }), Options{Rounds: 2}, Env{Parent: parent}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if running != 2 || !strings.Contains(r.Where, "2 private servers") {
		t.Errorf("%d servers, %s", running, r.Where)
	}
	for _, x := range r.Turns {
		want := 4.0
		if r.Arms[x.Arm].Name == "large" {
			want = 9
		}
		if x.Figures["work_mem"] != want || x.Figures["rate"] <= 0 || x.Figures["seconds"] <= 0 || x.Figures["wal_per_op"] <= 10 || x.Same["application"] != "headroom" {
			t.Errorf("%+v", x)
		}
	}
	if left := servers(t); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestInterruptLeavesNoServer(t *testing.T) {
	need.Have(t, "pg")
	ctx, stop := context.WithCancel(t.Context())
	turns := 0
	r, err := Run(ctx, counting(func(string) {
		if turns++; turns == 5 {
			stop()
		}
	}), Options{Rounds: 20}, Env{Parent: parent}, nil)
	if fail.Code(err) != fail.Interrupted || r == nil || r.Ended != trial.Interrupted {
		t.Errorf("%v, %+v", err, r)
	}
	if left := servers(t); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestTooLittleRoomIsSaidFirst(t *testing.T) {
	need.Have(t, "pg")
	l := counting(nil)
	inner := l.New
	l.New = func(p map[string]string) (Experiment, error) {
		e, err := inner(p)
		e.Disk = 1 << 60
		return e, err
	}
	if _, err := Run(t.Context(), l, Options{}, Env{Parent: parent}, nil); err == nil || fail.HintOf(err) == "" || !strings.Contains(err.Error(), "free") {
		t.Errorf("%v", err)
	}
	if left := servers(t); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestSettingThatTheServerRefuses(t *testing.T) {
	need.Have(t, "pg")
	l := counting(nil)
	inner := l.New
	l.New = func(p map[string]string) (Experiment, error) {
		e, err := inner(p)
		e.Arms[2].Settings = map[string]string{"work_mem": "much"}
		return e, err
	}
	if _, err := Run(t.Context(), l, Options{}, Env{Parent: parent}, nil); err == nil || !strings.Contains(err.Error(), "work_mem") {
		t.Errorf("%v", err)
	}
	if left := servers(t); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// parent is a folder that the servers' account may enter, the same for all
// tests, so that initdb runs once.
var parent string

func TestMain(m *testing.M) {
	var err error
	if parent, err = os.MkdirTemp("/tmp", "lab-"); err == nil {
		err = os.Chmod(parent, 0o755)
	}
	if err != nil {
		panic(err)
	}
	code := m.Run()
	os.RemoveAll(parent)
	os.Exit(code)
}

// servers are the folders of private servers.
func servers(t *testing.T) []string {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join(parent, "pg-*"))
	if err != nil {
		t.Fatal(err)
	}
	return dirs
}
