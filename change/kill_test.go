package change

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"headroom/engine/netns"
	"headroom/host"
	"headroom/testkit/need"
)

var killResults = flag.String("kill-results", "", "write what became of each killed run to this file, as JSON")

// killed is one run that was ended at a named point, and what came of it.
type killed struct {
	Scenario string `json:"scenario"`
	Point    string `json:"point"`
	Pass     int    `json:"pass"` // the n-th time that the point was passed
	Signal   string `json:"signal"`
	Ended    string `json:"ended"` // before, after, or BETWEEN with what was found
	Told     string `json:"told"`  // what the next start said
}

// points lists every crash.At in this package's source: none can be forgotten.
func points(t *testing.T) []string {
	t.Helper()
	var out []string
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			sel, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || sel.Sel.Name != "At" || fmt.Sprint(sel.X) != "crash" {
				return true
			}
			point, err := strconv.Unquote(call.Args[0].(*ast.BasicLit).Value)
			if err != nil || slices.Contains(out, point) {
				t.Errorf("%s: point %s is used twice or not a text", name, point)
			}
			out = append(out, point)
			return true
		})
	}
	slices.Sort(out)
	return out
}

// stage is one machine, journal and plan for the program to be killed.
type stage struct {
	t     *testing.T
	prog  string
	dir   string
	env   []string
	state func() map[string]string // of every object
	ns    *netns.Namespace         // where the program runs; nil: where we do
}

// ownFolder is removed at the end, when the last process that was started with
// it, a guard that outlives what it settled by a moment, is gone.
func ownFolder(t *testing.T) string {
	dir, err := os.MkdirTemp("", "hr-change-")
	must(t, err)
	t.Cleanup(func() {
		need.Eventually(t, 30*time.Second, "no process works in "+dir, func() bool { return !used(dir) })
		must(t, os.RemoveAll(dir))
	})
	return dir
}

// used says whether a process has the folder in its environment.
func used(dir string) bool {
	envs, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, p := range envs {
		if b, err := os.ReadFile(p); err == nil && bytes.Contains(b, []byte("KILL_STATE="+dir+"\x00")) {
			return true
		}
	}
	return false
}

func (s *stage) root() string { return filepath.Join(s.dir, "root") }

func (s *stage) mark() string { return filepath.Join(s.dir, "reached") }

// hit says whether the named point was reached, by the program or its guard.
func (s *stage) hit() bool {
	_, err := os.Stat(s.mark())
	return err == nil
}

func (s *stage) journal() *Journal {
	return OpenJournal(host.Dirs{State: filepath.Join(s.dir, "state"), Run: filepath.Join(s.dir, "run")})
}

// do runs one verb; sig says how it ended if it was killed.
func (s *stage) do(point string, signal syscall.Signal, args ...string) (out string, code int, sig syscall.Signal) {
	c := exec.Command(s.prog, args...)
	c.Env = append(slices.Clone(s.env), "HEADROOM_CRASH_AT="+point, "HEADROOM_CRASH_MARK="+s.mark(), fmt.Sprintf("HEADROOM_CRASH_SIGNAL=%d", signal))
	var buf bytes.Buffer
	c.Stdout, c.Stderr = &buf, &buf
	c.WaitDelay = time.Second
	err := s.start(c)
	if err == nil {
		err = c.Wait()
	}
	if c.ProcessState == nil {
		s.t.Fatal(err)
	}
	ws := c.ProcessState.Sys().(syscall.WaitStatus)
	if ws.Signaled() {
		sig = ws.Signal()
	}
	return buf.String(), c.ProcessState.ExitCode(), sig
}

func (s *stage) start(c *exec.Cmd) error {
	if s.ns == nil {
		return c.Start()
	}
	return s.ns.Do(c.Start)
}

// scenario is one way through the engine.
type scenario struct {
	name   string
	stage  func(t *testing.T, prog string) *stage
	before func(s *stage) // what has happened when the killed verb starts
	verb   func(s *stage) []string
	guard  bool
	whole  func(s *stage) // what apply leaves to be done
}

// signals are those that a scenario is run with: all of them where the way is
// the shortest, or where a table of results is asked for.
func (sc scenario) signals() []syscall.Signal {
	if sc.guard || *killResults == "" && sc.name != "files" && sc.name != "files, held" {
		return []syscall.Signal{syscall.SIGKILL}
	}
	if sc.name == "server that does not start" {
		return []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM}
	}
	return []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT}
}

func build(t *testing.T) string {
	t.Helper()
	prog := filepath.Join(t.TempDir(), "kill")
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(goTool, "build", "-tags", "crash", "-o", prog, "./testdata/kill").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return prog
}

// folder is a machine made of files. With fails, the last step cannot be
// verified: a pseudo file takes the value and forgets it.
func folder(fails bool, env ...string) func(t *testing.T, prog string) *stage {
	return func(t *testing.T, prog string) *stage {
		s := &stage{t: t, prog: prog, dir: ownFolder(t)}
		for p, content := range machine().Files {
			must(t, os.MkdirAll(filepath.Join(s.root(), filepath.Dir(p)), 0o755))
			// A plain file keeps what a shorter value does not overwrite.
			content = strings.Replace(content, "[mq-deadline] none", "kybr", 1)
			must(t, os.WriteFile(filepath.Join(s.root(), p), []byte(content), 0o644))
		}
		c := tuning()
		if fails {
			must(t, os.Symlink("/dev/null", filepath.Join(s.root(), "void")))
			c.Steps = append(c.Steps, Value{Path: "/void", Value: "1"})
		}
		plan := prepare(t, host.Open(host.Options{Root: s.root()}), c)
		s.env = append(env, "KILL_ROOT="+s.root(), "KILL_STATE="+s.dir, "KILL_PLAN="+savePlan(t, s.dir, plan))
		s.state = func() map[string]string {
			out := map[string]string{}
			err := filepath.WalkDir(s.root(), func(p string, d fs.DirEntry, err error) error {
				if err == nil && d.Type().IsRegular() {
					b, err := os.ReadFile(p)
					out[strings.TrimPrefix(p, s.root())] = string(b)
					return err
				}
				return err
			})
			must(t, err)
			return out
		}
		return s
	}
}

func savePlan(t *testing.T, dir string, p *Plan) string {
	var buf bytes.Buffer
	must(t, p.Save(&buf))
	path := filepath.Join(dir, "plan.json")
	must(t, os.WriteFile(path, buf.Bytes(), 0o600))
	return path
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// onServer stages one private server for all runs; with fails, a setting that
// only the server can refuse comes last.
func settings(t *testing.T, fails bool) func(t *testing.T, prog string) *stage {
	srv, h := server(t, nil)
	return func(t *testing.T, prog string) *stage {
		s := &stage{t: t, prog: prog, dir: ownFolder(t)}
		must(t, h.PGExec(ctx, "alter system reset all"))
		must(t, h.PGExec(ctx, "alter system set work_mem = '5MB'"))
		must(t, reload(ctx, h))
		steps := Steps{Setting{Values: map[string]string{"work_mem": "8MB", "random_page_cost": "1.1"}, Reset: []string{"max_wal_size"}}, Setting{Values: map[string]string{"autovacuum": "off"}}}
		if fails {
			steps = append(steps, Setting{Values: map[string]string{"log_destination": "nowhere"}})
		}
		plan := prepare(t, h, Change{Steps: steps})
		s.env = []string{"KILL_STATE=" + s.dir, "KILL_DSN=" + srv.DSN(), "KILL_PLAN=" + savePlan(t, s.dir, plan)}
		s.state = func() map[string]string {
			out := map[string]string{"auto": autoConf(t, srv)}
			for _, n := range []string{"work_mem", "random_page_cost", "autovacuum"} {
				out[n] = show(t, h, n)
			}
			return out
		}
		return s
	}
}

// restarting stages a server that will not start with the change.
func restarting(t *testing.T) func(t *testing.T, prog string) *stage {
	srv, h := server(t, nil)
	return func(t *testing.T, prog string) *stage {
		s := &stage{t: t, prog: prog, dir: ownFolder(t)}
		if !answers(ctx, h) {
			t.Fatal("the server does not answer")
		}
		p := prepare(t, h, Change{Steps: Steps{Setting{Values: map[string]string{"shared_preload_libraries": "no_such_library"}, Restart: true}}})
		s.env = []string{"KILL_STATE=" + s.dir, "KILL_DSN=" + srv.DSN(), "KILL_ACCEPT=restart", "KILL_PLAN=" + savePlan(t, s.dir, p)}
		s.state = func() map[string]string {
			return map[string]string{"auto": autoConf(t, srv), "in force": show(t, h, "shared_preload_libraries")}
		}
		return s
	}
}

func apply1(*stage) []string { return []string{"apply"} }

func onlyID(s *stage) string {
	es, err := s.journal().List()
	if err != nil || len(es) != 1 {
		s.t.Fatalf("journal: %+v, %v", es, err)
	}
	return es[0].ID
}

func applied(s *stage) {
	if out, code, _ := s.do("", 0, "apply"); code != 0 {
		s.t.Fatalf("apply: %s", out)
	}
}

func killedApply(s *stage) {
	if out, _, sig := s.do("change.step-verified:3", syscall.SIGKILL, "apply"); sig != syscall.SIGKILL {
		s.t.Fatalf("apply was not killed: %s", out)
	}
}

func revert1(s *stage) []string  { return []string{"revert", onlyID(s)} }
func confirm1(s *stage) []string { return []string{"confirm", onlyID(s)} }
func recover1(*stage) []string   { return []string{"recover"} }

// Whatever point the program is killed at, by whatever signal, everything
// ends as before or as after, and the next start says what it found.
func TestKillPoints(t *testing.T) {
	prog := build(t)
	all := []scenario{
		{name: "files", stage: folder(false), verb: apply1},
		{name: "files, failing", stage: folder(true), verb: apply1},
		{name: "files, taking back", stage: folder(false), before: applied, verb: revert1},
		{name: "files, recovering", stage: folder(false), before: killedApply, verb: recover1},
		{name: "files, confirming", stage: folder(false, "KILL_CONFIRM=2s"), before: applied, verb: confirm1, guard: true},
		{name: "files, held", stage: folder(false), verb: func(*stage) []string { return []string{"hold"} }},
		{name: "files, guarded", stage: folder(false, "KILL_CONFIRM=300ms"), verb: apply1, guard: true},
	}
	rules := func(env ...string) func(*testing.T, string) *stage {
		return func(t *testing.T, prog string) *stage { return newSite(t, prog, nftSSH, env...).stage }
	}
	confirmed := func(s *stage) { s.do("", 0, "confirm", onlyID(s)) }
	all = append(all,
		scenario{name: "rules", stage: rules("KILL_CONFIRM=300ms"), verb: apply1, guard: true},
		scenario{name: "rules, confirming", stage: rules("KILL_CONFIRM=2s", "KILL_UNSEEN=1"), before: applied, verb: confirm1, guard: true, whole: confirmed})
	if *killResults != "" {
		all = append(all, scenario{name: "rules, taking back", stage: rules("KILL_CONFIRM=60s", "KILL_UNSEEN=1"),
			before: func(s *stage) { applied(s); confirmed(s) }, verb: revert1, whole: confirmed})
	}
	need.Have(t, "pg")
	all = append(all,
		scenario{name: "settings", stage: settings(t, false), verb: apply1},
		scenario{name: "settings, failing", stage: settings(t, true), verb: apply1},
		scenario{name: "settings, taking back", stage: settings(t, false), before: applied, verb: revert1})
	if *killResults != "" { // takes its time; TestKilledRestart has the points that count
		all = append(all, scenario{name: "server that does not start", stage: restarting(t), verb: apply1})
	}
	table := &killTable{reached: map[string]bool{}}
	names := points(t)
	for _, sc := range all {
		t.Run(sc.name, func(t *testing.T) {
			for _, sig := range sc.signals() {
				killEverywhere(t, prog, sc, names, sig, table)
			}
		})
	}
	for _, p := range names {
		if !table.reached[p] && p != "change.rescue-stored" && p != "change.setting-reloaded" && p != "change.guard-unit-armed" { // two restart a server: TestKilledRestart; one needs systemd
			t.Errorf("point %s was never reached", p)
		}
	}
	table.write(t)
}

func killEverywhere(t *testing.T, prog string, sc scenario, names []string, sig syscall.Signal, table *killTable) {
	before, after := ends(t, prog, sc)
	var wg sync.WaitGroup
	slots := make(chan struct{}, 8)
	for _, p := range names {
		for pass := 1; pass <= 12; pass++ {
			s := sc.stage(t, prog)
			if sc.before != nil {
				sc.before(s)
			}
			args := sc.verb(s)
			_ = os.Remove(s.mark()) // of what went before
			out, _, _ := s.do(fmt.Sprintf("%s:%d", p, pass), sig, args...)
			row := killed{Scenario: sc.name, Point: p, Pass: pass, Signal: sig.String()}
			if !sc.guard {
				if !s.hit() {
					break // not passed so often
				}
				row.Ended, row.Told = s.settle(sig, before, after)
				judge(t, row, out, table)
				continue
			}
			slots <- struct{}{}
			wg.Go(func() { // the guard takes its time
				defer func() { <-slots }()
				s.guardEnds()
				if s.hit() {
					row.Ended, row.Told = s.settle(syscall.SIGKILL, before, after)
					judge(t, row, out, table)
				}
			})
			if pass >= 2 {
				break
			}
		}
	}
	wg.Wait()
}

func judge(t *testing.T, row killed, out string, table *killTable) {
	table.add(row)
	if row.Ended != "before" && row.Ended != "after" {
		t.Errorf("%s, %s pass %d, %s: %s\n%s\n%s", row.Scenario, row.Point, row.Pass, row.Signal, row.Ended, row.Told, out)
	}
}

// ends tells what before and after look like, by a run that is left alone.
func ends(t *testing.T, prog string, sc scenario) (before, after map[string]string) {
	s := sc.stage(t, prog)
	before = s.state()
	s.do("", 0, "apply")
	if sc.whole != nil {
		sc.whole(s)
	}
	after = s.state()
	if out, _, _ := s.do("", 0, "recover"); strings.Contains(out, "error:") {
		t.Fatal(out)
	}
	for _, e := range list(t, s.journal()) {
		if e.Phase == Awaiting || sc.whole != nil {
			s.do("", 0, "revert", e.ID)
		}
	}
	return before, after
}

func list(t *testing.T, j *Journal) []Entry {
	es, err := j.List()
	must(t, err)
	return es
}

// settle starts the next program, as a user would, and tells how all ended. A
// signal that can be caught must leave nothing for the next start to do.
func (s *stage) settle(sig syscall.Signal, before, after map[string]string) (ended, told string) {
	if sig != syscall.SIGKILL {
		if p, err := Pending(s.journal()); err != nil || len(p) > 0 {
			return fmt.Sprintf("BETWEEN: left pending %+v, %v", p, err), ""
		}
	}
	told, code, _ := s.do("", 0, "recover")
	if code != 0 {
		return "BETWEEN: recover failed", told
	}
	if p, err := Pending(s.journal()); err != nil || len(p) > 0 {
		return fmt.Sprintf("BETWEEN: still pending %+v, %v", p, err), told
	}
	state := s.state()
	phase := Void
	for _, e := range list(s.t, s.journal()) {
		phase = e.Phase
	}
	switch {
	case maps.Equal(state, before) && (phase == Reverted || phase == Void):
		return "before", told
	case maps.Equal(state, after) && phase == Applied:
		return "after", told
	}
	return fmt.Sprintf("BETWEEN: %q, journal says %s", state, phase), told
}

// guardEnds waits until the change is settled or its guard is gone, too, and
// then past the deadline.
func (s *stage) guardEnds() {
	es := list(s.t, s.journal())
	if len(es) == 0 || es[0].Plan == nil {
		return
	}
	need.Eventually(s.t, 30*time.Second, "guard ends", func() bool {
		e, err := s.journal().Get(es[0].ID)
		must(s.t, err)
		if e.Phase == Reverted || e.Phase == Applied {
			return true
		}
		// One thread of a killed process may hold the lock for a moment longer.
		busy, err := s.journal().held()
		must(s.t, err)
		return guardGone(e) && !busy && (e.ConfirmBy.IsZero() || e.unsettled(time.Now()) != "")
	})
}

func guardGone(e Entry) bool {
	for _, r := range e.Records {
		if r.Type == recArmed {
			b, err := os.ReadFile("/proc/" + strings.TrimPrefix(r.Note, "process ") + "/stat")
			if err == nil && !strings.Contains(string(b), ") Z ") {
				return false
			}
		}
	}
	return true
}
