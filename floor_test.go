package headroom

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// floors is the house: a package imports only from floors below its own
// number. The reason is what would be lost without the rule.
var floors = []struct {
	number   int
	packages []string
	reason   string
}{
	{1, []string{"unit", "stats", "fail"}, "pure: runs anywhere, tested without a machine"},
	{2, []string{"host"}, "one auditable door to the machine"},
	{3, []string{"fact", "engine/*", "crash", "metric", "queue"}, "facts, numbers and fast paths know nothing of what is made of them"},
	{4, []string{"change", "probe/*", "pglocal", "engine/pgscript", "engine/bulkload", "engine/readtable", "engine/packet", "queue/*", "engine/stateless"}, "one engine alters; probes only read; a script drives connections; a load cuts records; packets go into namespaces; other kinds of queue; rules converted are rules"},
	{5, []string{"probe/place", "engine/ingest", "engine/fwproof"}, "joins what others know: which device holds which folder; records, upserts and a copy to read; two rule sets put to the same packets"},
	{6, []string{"check", "trial"}, "pure judgement; a trial's arms are changes"},
	{7, []string{"lab"}, "a ready-made experiment speaks of measures and phases as a trial does"},
	{8, []string{"topic"}, "a subject is data"},
	{9, []string{"topic/*"}, "topics never import topics"},
	{10, []string{"topic/all", "report", "store", "agent"}, "the one list; no arithmetic in what is printed; numbers kept know nothing of who looks; collects and ships"},
	{11, []string{"peer", "web/auth", "web/live"}, "what hosts tell of themselves; who may do what; what is new now"},
	{12, []string{"web/*"}, "answers to programs"},
	{13, []string{"web/page"}, "pages show what the answers are made of"},
	{14, []string{"web"}, "one server with one guard before all pages and answers"},
	{15, []string{"watch"}, "joins collectors, queue, store and pages into one running thing"},
	{16, []string{"cli"}, "verbs are thin: parse, call, print"},
	{17, []string{"cmd/headroom", "docs", "bench/*"}, "entry points"},
}

// floorOf returns the floor of a package path below the module; an exact name
// wins over a pattern.
func floorOf(pkg string) int {
	found := 0
	for _, f := range floors {
		for _, p := range f.packages {
			if p == pkg {
				return f.number
			}
			if dir, ok := strings.CutSuffix(p, "/*"); ok && strings.HasPrefix(pkg, dir+"/") {
				found = f.number
			}
		}
	}
	return found
}

// alone lists imports that only some packages may have, with the reason.
var alone = map[string]struct {
	allowed []string
	reason  string
}{
	"os/exec":                {[]string{"host"}, "programs are run through host.Cmd, where environment, time limit and output are bounded"},
	"github.com/spf13/cobra": {[]string{"cli", "docs"}, "the command line is one floor"},
	"html/template":          {[]string{"report", "web/page"}, "pages are made in two places: files, and the server"},
	"net/http":               {[]string{"pglocal", "host", "agent", "web", "web/api", "web/page", "watch", "bench/*"}, "only these talk to the network: the fetch of server binaries, status pages on loopback, the watcher and its agents"},
}

func TestArrowsPointDown(t *testing.T) {
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (strings.HasPrefix(d.Name(), ".") && path != "." || d.Name() == "testdata" || path == "testkit" || path == "test") {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		imports(t, path)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func imports(t *testing.T, path string) {
	pkg := filepath.ToSlash(filepath.Dir(path))
	own := floorOf(pkg)
	if own == 0 {
		t.Errorf("%s: package %s stands on no floor; give it one in floor_test.go", path, pkg)
		return
	}
	f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	for _, spec := range f.Imports {
		name, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		if rule, ok := alone[name]; ok && !permitted(pkg, rule.allowed) {
			t.Errorf("%s imports %s: only %v may (%s)", path, name, rule.allowed, rule.reason)
		}
		below, ours := strings.CutPrefix(name, "headroom/")
		if !ours {
			continue
		}
		if other := floorOf(below); other == 0 || other >= own {
			t.Errorf("%s (floor %d) imports %s (floor %d): arrows point down only", path, own, below, other)
		}
	}
}

func permitted(pkg string, allowed []string) bool {
	for _, a := range allowed {
		if pkg == a || strings.HasPrefix(pkg, a+"/") || strings.HasPrefix(pkg, "bench/") {
			return true
		}
	}
	return false
}
