package script

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"headroom/change"
	"headroom/testkit/need"
)

var lockoutResults = flag.String("lockout-results", "", "interrupt an apply at every point, in every way, by every tool, and write what became of it to this file, as JSON")

// lockedOut is one interrupted apply of rules that let nobody in.
type lockedOut struct {
	Tool    string  `json:"tool"`
	Point   string  `json:"point"`
	Way     string  `json:"way"`     // how it was interrupted
	Shut    bool    `json:"shut"`    // nobody could come in when it was interrupted
	Seconds float64 `json:"seconds"` // from the interruption until somebody could come in again
	Out     bool    `json:"locked_out"`
	Half    bool    `json:"half_applied"` // the rules are not as before
	Phase   string  `json:"phase"`        // in the journal, at the end
}

const confirmWithin = 2 * time.Second

// points are the named points of package change that an apply can pass.
// With twice, those of its steps are passed a second time, too.
func applyPoints(t *testing.T, twice bool) []string {
	t.Helper()
	var out []string
	files, err := filepath.Glob("../../change/*.go")
	if err != nil || len(files) == 0 {
		t.Fatal("no source of package change", err)
	}
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				if sel, ok := call.Fun.(*ast.SelectorExpr); ok && sel.Sel.Name == "At" && fmt.Sprint(sel.X) == "crash" {
					if p, err := strconv.Unquote(call.Args[0].(*ast.BasicLit).Value); err == nil {
						out = append(out, p)
						if twice && strings.HasPrefix(p, "change.step-") {
							out = append(out, p+":2")
						}
					}
				}
			}
			return true
		})
	}
	slices.Sort(out)
	return append(out, afterApply)
}

// afterApply is the wait for the confirmation, with nothing more going on.
const afterApply = "awaiting the confirmation"

// ways are those in which an apply is interrupted.
var ways = []string{"SIGKILL", "SIGHUP", "SIGTERM", "Ctrl-C", `Ctrl-\`, "terminal closed"}

// TestLockOut interrupts an apply of rules that let nobody in, wherever it can
// be, and wants somebody to be able to come in again, by the old rules.
func TestLockOut(t *testing.T) {
	need.Have(t, "root", "netns", "nft", "iptables")
	prog := crashing(t)
	tools, how := filters()[:1], ways[len(ways)-1:]
	if *lockoutResults != "" {
		tools, how = filters(), ways
	}
	var mu sync.Mutex
	var rows []lockedOut
	t.Run("runs", func(t *testing.T) {
		slots := make(chan struct{}, 6)
		for _, f := range tools {
			for _, p := range applyPoints(t, len(f.second) > 0) {
				for _, w := range how {
					t.Run(f.name()+"/"+p+"/"+w, func(t *testing.T) {
						t.Parallel()
						slots <- struct{}{}
						defer func() { <-slots }()
						s := newSite(t, prog, f)
						if row, reached := s.interrupt(p, w); reached {
							mu.Lock()
							defer mu.Unlock()
							rows = append(rows, row)
						}
					})
				}
			}
		}
	})
	judgeLockOut(t, rows)
}

func judgeLockOut(t *testing.T, rows []lockedOut) {
	out, half, shut, slowest := 0, 0, 0, 0.0
	for _, r := range rows {
		slowest = max(slowest, r.Seconds)
		if r.Shut {
			shut++
		}
		if r.Out {
			out++
			t.Errorf("locked out: %+v", r)
		}
		if r.Half {
			half++
			t.Errorf("half applied: %+v", r)
		}
	}
	if shut == 0 {
		t.Error("nobody was ever locked out for a moment: the test shows nothing")
	}
	t.Logf("%d interrupted applies, %d of them while nobody could come in: locked out %d, half applied %d, open again after %.1f s at most", len(rows), shut, out, half, slowest)
	if *lockoutResults == "" {
		return
	}
	slices.SortFunc(rows, func(a, b lockedOut) int { return strings.Compare(a.Tool+a.Point+a.Way, b.Tool+b.Point+b.Way) })
	saveJSON(t, *lockoutResults, map[string]any{"runs": len(rows), "while_shut": shut, "locked_out": out, "half_applied": half,
		"confirm_within_seconds": confirmWithin.Seconds(), "slowest_seconds": slowest, "rows": rows})
}

// interrupt applies the plan and interrupts it; reached is false if it never
// came to that point.
func (s *site) interrupt(point, way string) (row lockedOut, reached bool) {
	row = lockedOut{Tool: s.filter.name(), Point: point, Way: way}
	mark := filepath.Join(s.dir, "reached")
	signal, direct := map[string]syscall.Signal{"SIGKILL": syscall.SIGKILL, "SIGHUP": syscall.SIGHUP, "SIGTERM": syscall.SIGTERM}[way]
	if !direct {
		signal = syscall.SIGSTOP // held there until the terminal does it
	}
	env := []string{"HEADROOM_CRASH_AT=" + point, "HEADROOM_CRASH_MARK=" + mark, "HEADROOM_CRASH_ONCE=1", fmt.Sprintf("HEADROOM_CRASH_SIGNAL=%d", signal)}
	if point == afterApply {
		env = nil
	}
	c := s.command(env, "apply", s.plan, "--confirm-within", confirmWithin.String())
	master := s.terminal(c)
	ended := make(chan struct{})
	go func() { _ = c.Wait(); close(ended) }()
	if point == afterApply {
		waitFor(s.t, master, "taken back at")
	} else if !s.marked(mark, ended) || !ownMark(mark, point, c.Process.Pid) {
		endMarked(mark)
		return row, false // not passed, or by the guard: that is TestLockOutOfService
	}
	if !direct && point != afterApply {
		s.stopped(c.Process.Pid)
	}
	hit := time.Now()
	row.Shut = !s.letsIn(100 * time.Millisecond)
	switch {
	case way == "terminal closed":
		s.must(master.Close())
	case way == "Ctrl-C":
		_, err := master.WriteString("\x03")
		s.must(err)
	case way == `Ctrl-\`:
		_, err := master.WriteString("\x1c")
		s.must(err)
	case point == afterApply:
		_ = c.Process.Signal(signal)
	}
	if !direct {
		_ = c.Process.Signal(syscall.SIGCONT)
	}
	s.settled()
	select {
	case <-ended:
	case <-time.After(30 * time.Second):
		s.t.Errorf("%s, %s: the apply does not end", point, way)
		_ = c.Process.Kill()
	}
	row.Out = !s.letsIn(time.Second)
	row.Seconds = time.Since(hit).Seconds()
	row.Half = s.rules() != s.before
	row.Phase = string(change.Void)
	for _, e := range s.entries() {
		row.Phase = string(e.Phase)
	}
	return row, true
}

// stopped waits until a process has stopped itself: what is done before could
// be undone by the stop.
func (s *site) stopped(pid int) {
	need.Eventually(s.t, 30*time.Second, "the apply stops at its point", func() bool {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return err == nil && strings.Contains(string(b), ") T ")
	})
}

// ownMark says whether it was the apply that passed a point, not its guard.
func ownMark(mark, point string, pid int) bool {
	b, err := os.ReadFile(mark)
	name, _, _ := strings.Cut(point, ":")
	return err == nil && string(b) == fmt.Sprintf("%s %d\n", name, pid)
}

// endMarked ends a guard that was interrupted in the apply's place: stopped, it
// would stay for ever.
func endMarked(mark string) {
	b, err := os.ReadFile(mark)
	if _, pid, ok := strings.Cut(strings.TrimSpace(string(b)), " "); err == nil && ok {
		if n, err := strconv.Atoi(pid); err == nil && n > 1 {
			_ = syscall.Kill(n, syscall.SIGKILL)
		}
	}
}

// marked waits until the point was reached, by the apply or its guard, or all
// is over without.
func (s *site) marked(mark string, ended chan struct{}) bool {
	over := time.Now().Add(60 * time.Second)
	for time.Now().Before(over) {
		if b, err := os.ReadFile(mark); err == nil && strings.HasSuffix(string(b), "\n") {
			return true
		}
		select {
		case <-ended:
			es := s.entries()
			if len(es) == 0 || es[0].Phase == change.Reverted || es[0].Phase == change.Applied {
				_, err := os.Stat(mark)
				return err == nil
			}
		default:
		}
		time.Sleep(10 * time.Millisecond)
	}
	s.t.Error("neither reached nor over after 60 s")
	return false
}

// settled waits until somebody can come in again and the journal says that all
// is as before, or that nothing was begun.
func (s *site) settled() {
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		es := s.entries()
		begun := len(es) > 0 && es[0].Phase != change.Reverted && es[0].Phase != change.Void && es[0].Phase != change.Begun
		if !begun && s.letsIn(200*time.Millisecond) {
			return
		}
	}
}
