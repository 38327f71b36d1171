package script

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"headroom/change"
	"headroom/engine/netns"
	"headroom/host"
	"headroom/testkit/need"
)

// site is a machine in a namespace whose port 22 answers, and somebody far
// away who comes in over a wire.
type site struct {
	t         *testing.T
	near, far *netns.Namespace
	dir       string
	prog      string
	plan      string // file
	before    string // the rules
	filter    filter
	local     *host.Local
	init      string // process number of its systemd; "" if it has none
}

// filter is one way to filter packets: rules that let all in, and rules that
// let nobody in.
type filter struct {
	tool       string
	tables     []string
	open, shut string
	second     change.Steps // done after the first
}

const (
	nftTable = "table inet mine {\n\tchain input {\n\t\ttype filter hook input priority filter; policy %s;\n\t}\n}\n"
	xtTables = "*raw\n:PREROUTING ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\n%sCOMMIT\n*filter\n:INPUT %s [0:0]\n:FORWARD ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\nCOMMIT\n"
)

func filters() []filter {
	nft := filter{tool: "nft", tables: []string{"inet mine"}, open: fmt.Sprintf(nftTable, "accept"), shut: fmt.Sprintf(nftTable, "drop")}
	two := nft
	two.second = change.Steps{change.Rules{Tool: "nft", Tables: []string{"ip6 more"}, Content: "table ip6 more {\n\tchain c {\n\t\ttype filter hook input priority filter; policy drop;\n\t}\n}\n"}}
	out := []filter{nft, two}
	for _, tool := range []string{"iptables-legacy", "iptables-nft"} {
		out = append(out, filter{tool: tool, tables: []string{"raw", "filter"},
			open: fmt.Sprintf(xtTables, "-A PREROUTING -i none0 -j DROP\n", "ACCEPT"), shut: fmt.Sprintf(xtTables, "", "DROP")})
	}
	return out
}

func (f filter) load() []string {
	if f.tool == "nft" {
		return []string{"nft", "-f", "-"}
	}
	return []string{f.tool + "-restore"}
}

func (f filter) list() []string {
	if f.tool == "nft" {
		return []string{"nft", "-s", "list", "ruleset"}
	}
	return []string{f.tool + "-save"}
}

// name tells arms apart.
func (f filter) name() string {
	if len(f.second) > 0 {
		return f.tool + ", two steps"
	}
	return f.tool
}

// crashing is the program as its tests kill it.
func crashing(t *testing.T) string {
	t.Helper()
	prog := filepath.Join(t.TempDir(), "headroom")
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(goTool, "build", "-tags", "crash", "-o", prog, "headroom/cmd/headroom").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return prog
}

// newSite stages the machine, with a saved plan for rules that let nobody in.
func newSite(t *testing.T, prog string, f filter) *site {
	t.Helper()
	need.Have(t, "root", "netns", "nft", "iptables")
	s := &site{t: t, prog: prog, dir: ownFolder(t), filter: f, local: host.Open(host.Options{})}
	for _, ns := range []**netns.Namespace{&s.near, &s.far} {
		made, err := netns.New()
		s.must(err)
		t.Cleanup(made.Close)
		*ns = made
	}
	s.must(netns.Join(s.near, s.far, netns.Between()))
	s.listen()
	s.must(s.near.Do(func() error {
		_, err := s.local.Feed(context.Background(), []byte(f.open), f.load()...)
		return err
	}))
	s.before = s.rules()
	s.plan = filepath.Join(s.dir, "plan.json")
	s.must(s.near.Do(s.makePlan))
	return s
}

// ownFolder is removed at the end, as soon as no guard writes into it any more.
func ownFolder(t *testing.T) string {
	dir, err := os.MkdirTemp("", "hr-lockout-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		need.Eventually(t, 30*time.Second, "nobody writes into "+dir, func() bool { return os.RemoveAll(dir) == nil })
	})
	return dir
}

func (s *site) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) makePlan() error {
	p, err := change.Prepare(context.Background(), s.local, change.Change{
		Spec: change.Spec{ID: "firewall.test"}, Subject: "this machine", Risk: change.RiskHigh,
		Steps: append(change.Steps{change.Rules{Tool: s.filter.tool, Tables: s.filter.tables, Content: s.filter.shut}}, s.filter.second...)})
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := p.Save(&b); err != nil {
		return err
	}
	return os.WriteFile(s.plan, b.Bytes(), 0o600)
}

func (s *site) listen() {
	s.must(s.near.Do(func() error {
		l, err := net.Listen("tcp", ":22")
		if err != nil {
			return err
		}
		s.t.Cleanup(func() { _ = l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				_ = c.Close()
			}
		}()
		return nil
	}))
}

// letsIn says whether somebody can come in anew.
func (s *site) letsIn(wait time.Duration) bool {
	err := s.far.Do(func() error {
		c, err := net.DialTimeout("tcp", "10.99.0.1:22", wait)
		if err == nil {
			_ = c.Close()
		}
		return err
	})
	return err == nil
}

// rules lists what filters now, without remarks and counters.
func (s *site) rules() string {
	s.t.Helper()
	var out strings.Builder
	s.must(s.near.Do(func() error {
		b, err := s.local.Run(context.Background(), s.filter.list()...)
		for line := range strings.Lines(string(b)) {
			line, _, _ = strings.Cut(line, " [")
			if !strings.HasPrefix(line, "#") {
				out.WriteString(strings.TrimRight(line, "\n") + "\n")
			}
		}
		return err
	}))
	return out.String()
}

// command is the program on this machine.
func (s *site) command(env []string, args ...string) *exec.Cmd {
	c := exec.Command(s.prog, args...)
	c.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.dir, "HEADROOM_STATE=" + s.dir, "TERM=dumb", "LANG=C.UTF-8"}, env...)
	return c
}

// run runs the program to its end.
func (s *site) run(args ...string) (out string, code int) {
	s.t.Helper()
	return s.end(s.command(nil, args...))
}

func (s *site) end(c *exec.Cmd) (out string, code int) {
	s.t.Helper()
	var buf bytes.Buffer
	c.Stdout, c.Stderr = &buf, &buf
	c.WaitDelay = time.Second
	err := s.near.Do(c.Start)
	if err == nil {
		err = c.Wait()
	}
	if c.ProcessState == nil {
		s.t.Fatal(err)
	}
	return buf.String(), c.ProcessState.ExitCode()
}

// phases are those of all changes in the machine's journal, the oldest first.
func (s *site) entries() []change.Entry {
	s.t.Helper()
	es, err := change.OpenJournal(host.Dirs{State: filepath.Join(s.dir, "state"), Run: filepath.Join(s.dir, "run")}).List()
	s.must(err)
	return es
}

// terminal runs a program in a session on a terminal of its own; closing the
// terminal is what happens when a connection is lost.
func (s *site) terminal(c *exec.Cmd) (master *os.File) {
	s.t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	s.must(err)
	s.t.Cleanup(func() { _ = master.Close() })
	s.must(unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	s.must(err)
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	s.must(err)
	defer slave.Close()
	c.Stdin, c.Stdout, c.Stderr = slave, slave, slave
	c.SysProcAttr = &unix.SysProcAttr{Setsid: true, Setctty: true}
	s.must(s.near.Do(c.Start))
	return master
}

// saveJSON writes results for the record.
func saveJSON(t *testing.T, file string, v any) {
	t.Helper()
	b, err := json.MarshalIndent(v, "", " ")
	if err == nil {
		err = os.WriteFile(file, append(b, '\n'), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func writeFile(path, content string) error { return os.WriteFile(path, []byte(content), 0o600) }
