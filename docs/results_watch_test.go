package main

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
)

// put writes a result file.
func put(t *testing.T, dir, name string, v any) {
	t.Helper()
	raw, err := json.Marshal(v)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name), raw, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// row is the line of a table that begins so.
func row(t *testing.T, text, begins string) string {
	t.Helper()
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "| "+begins) {
			return line
		}
	}
	t.Fatalf("no row %q in\n%s", begins, text)
	return ""
}

func TestWithoutFilesNothingIsClaimed(t *testing.T) {
	for _, aims := range [][]aim{speedAims, safetyAims} {
		text, err := aimTable(t.TempDir(), aims)
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(text, "not measured yet"); n != len(aims) {
			t.Errorf("%d of %d rows say that they are not measured:\n%s", n, len(aims), text)
		}
		if strings.Contains(text, "met |") || strings.Contains(text, "**") {
			t.Errorf("something is judged without a measurement:\n%s", text)
		}
	}
}

// A file that lacks figures, as an interrupted or older bench would leave it,
// is neither an error of the whole page nor a goal met.
func TestEmptyFilesClaimNothing(t *testing.T) {
	dir := t.TempDir()
	for _, a := range append(append([]aim{}, speedAims...), safetyAims...) {
		put(t, dir, strings.ReplaceAll(a.pattern, "????-??-??", "2026-11-21"), map[string]any{"Result": map[string]any{}})
	}
	for _, aims := range [][]aim{speedAims, safetyAims} {
		text, err := aimTable(dir, aims)
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(text, "| – |"); n != len(aims) {
			t.Errorf("%d of %d rows judge nothing:\n%s", n, len(aims), text)
		}
	}
}

func TestGoalsAreJudged(t *testing.T) {
	for _, x := range []struct {
		what string
		met  bool
		file string
		v    func() any
	}{
		{"kill -9", true, "watch-kill-2026-11-21.json", func() any { return killed(500, 0, 0, 0) }},
		{"kill -9", false, "watch-kill-2026-11-21.json", func() any { return killed(499, 0, 0, 0) }},
		{"kill -9", false, "watch-kill-2026-11-21.json", func() any { return killed(500, 1, 0, 0) }},
		{"kill -9", false, "watch-kill-2026-11-21.json", func() any { return killed(500, 0, 1, 0) }},
		{"kill -9", false, "watch-kill-2026-11-21.json", func() any { return killed(500, 0, 0, 1) }},
		{"12 × the load", true, "watch-soak-2026-11-21.json", func() any { return soaked(7200, 1e4) }},
		{"12 × the load", false, "watch-soak-2026-11-21.json", func() any { return soaked(600, 1e4) }},
		{"12 × the load", false, "watch-soak-2026-11-21.json", func() any { return soaked(7200, 1e7) }},
		{"store away", true, "watch-outage-2026-11-21.json", func() any { return outaged(0, "no such file | away") }},
		{"store away", false, "watch-outage-2026-11-21.json", func() any { return outaged(1, "away") }},
		{"… the page", true, "watch-outage-2026-11-21.json", func() any { return outaged(0, "no such file | away") }},
		{"… the page", false, "watch-outage-2026-11-21.json", func() any { return outaged(0, "") }},
		{"points over HTTP", true, "watch-ingest-2026-11-21.json", func() any { return ingested(410e3, 0.6) }},
		{"points over HTTP", false, "watch-ingest-2026-11-21.json", func() any { return ingested(390e3, 0.6) }},
		{"the same beside", false, "watch-ingest-2026-11-21.json", func() any { return ingested(410e3, 0.4) }},
		{"what collecting takes", true, "pgcollect-2026-11-21.json", func() any { return trialled(10, 0.96, 1.0) }},
		{"what collecting takes", false, "pgcollect-2026-11-21.json", func() any { return trialled(1, 0.96, 1.0) }},
		{"what collecting takes", false, "pgcollect-2026-11-21.json", func() any { return trialled(1, 0.9, 0.99) }},
	} {
		dir := t.TempDir()
		put(t, dir, x.file, x.v())
		text, err := aimTable(dir, append(append([]aim{}, speedAims...), safetyAims...))
		if err != nil {
			t.Fatal(err)
		}
		line := row(t, text, x.what)
		if strings.Contains(line, "| met |") != x.met || strings.Contains(line, "**not met**") == x.met || !strings.Contains(line, x.file) {
			t.Errorf("want met=%v: %s", x.met, line)
		}
	}
}

func killed(kills int, lost, double, agentDouble int64) any {
	var r watchKill
	r.Result.Kills, r.Result.Acked = map[string]int{"server": kills}, 1000
	r.Result.Lost, r.Result.Double, r.Result.AgentDouble = lost, double, agentDouble
	r.Result.Counted = 1000 - lost + double
	return r
}

func outaged(lost int64, told string) any {
	var r watchOutage
	r.Result.Sent, r.Result.CatchUpSeconds, r.Result.TimesLive, r.Result.PageStatus = 1000, 1, 20, 503
	r.Result.Lost, r.Result.Told = lost, told
	return r
}

func soaked(seconds, memoryPerHour float64) any {
	var r watchSoak
	r.Result.Seconds, r.Result.MemoryPerHour = seconds, memoryPerHour
	for range 10 {
		r.Result.Samples = append(r.Result.Samples, soakSample{Memory: 100e6, Files: 50, Goroutines: 40})
	}
	return r
}

func ingested(rate, ratio float64) any {
	var r watchIngest
	for range 3 {
		r.Result.Ours = append(r.Result.Ours, ingestRound{Points: 1e6, Acked: 1, Stored: 1e6 / rate, Rate: rate, PointsByCPU: 1})
		r.Result.VictoriaMetrics = append(r.Result.VictoriaMetrics, ingestRound{Points: 1e6, Acked: 1, Stored: 1, Rate: rate / ratio, PointsByCPU: 1})
		r.Result.Ratio, r.Result.RatioByCPU = append(r.Result.Ratio, ratio), append(r.Result.RatioByCPU, ratio)
	}
	return r
}

func trialled(speed int, lo, hi float64) any {
	x := collectTrial{Load: "select", Speed: speed, Window: 5, With: []float64{1, 1}}
	x.Ratio.Lo, x.Ratio.Center, x.Ratio.Hi, x.Ratio.Level = lo, (lo+hi)/2, hi, 0.95
	return collectFile{Collectors: []collectCost{{Name: "x"}}, Trials: []collectTrial{x}}
}

// What a page reads must be what a bench writes: each field read is a field of
// a struct there, by Go name or by tag.
func TestFieldsAreWritten(t *testing.T) {
	for dir, reads := range map[string][]any{
		"watch":     {watchIngest{}, watchHosts{}, watchOutage{}, watchKill{}, watchSoak{}},
		"store":     {storeFile{}},
		"agent":     {agentFile{}},
		"pgcollect": {collectFile{}},
	} {
		written := fieldsOf(t, filepath.Join("..", "bench", dir))
		for _, v := range reads {
			missing(t, dir, written, reflect.TypeOf(v))
		}
	}
}

func missing(t *testing.T, dir string, written map[string]bool, typ reflect.Type) {
	for typ.Kind() == reflect.Slice || typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Map {
		typ = typ.Elem()
	}
	if typ.Kind() != reflect.Struct || strings.HasPrefix(typ.PkgPath(), "headroom/stats") {
		return
	}
	for f := range typ.Fields() {
		name := f.Name
		if tag := f.Tag.Get("json"); tag != "" {
			name = tag
		}
		if !f.Anonymous && !written[strings.ToLower(name)] {
			t.Errorf("bench/%s writes no %s, which %s reads", dir, name, typ)
		}
		missing(t, dir, written, f.Type)
	}
}

// fieldsOf lists the names under which a package's structs are written as
// JSON, in lower case, as encoding/json compares them.
func fieldsOf(t *testing.T, dir string) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no sources in %s: %v", dir, err)
	}
	for _, path := range files {
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			s, ok := n.(*ast.StructType)
			if !ok {
				return true
			}
			for _, field := range s.Fields.List {
				for _, name := range field.Names {
					out[strings.ToLower(written(name.Name, field.Tag))] = true
				}
			}
			return true
		})
	}
	return out
}

func written(name string, tag *ast.BasicLit) string {
	if tag == nil {
		return name
	}
	text, err := strconv.Unquote(tag.Value)
	if err != nil {
		return name
	}
	if n, _, _ := strings.Cut(reflect.StructTag(text).Get("json"), ","); n != "" {
		return n
	}
	return name
}

func TestPowerTests(t *testing.T) {
	text, err := powerText([]byte(`{"Action":"output","Test":"TestPowerLoss","Output":"    crash_test.go:154: 1230 states opened\n"}
{"Action":"pass","Test":"TestPowerLoss"}
{"Action":"fail","Test":"TestPowerCut"}
{"Action":"skip","Test":"TestEveryLength"}
`))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| 1230 states opened | nothing acknowledged was lost |", "|  | **failed** |", "|  | not run here |", "|  | not run |"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}
