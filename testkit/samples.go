package testkit

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"headroom/fail"
	"headroom/host"
	"headroom/metric"
	"headroom/topic"
)

// Samples plays testdata/samples/*.txtar of the topic's folder: each holds the
// files of a machine under their absolute names, the rest of it (spaces,
// looked, pages, shown, clock) in machine.json, and the golden text of what
// all collectors of the topic read there: samples, and gaps with their
// reasons. Names of the files of the collectors to run may be listed in
// collectors; otherwise all run.
func Samples(t *testing.T, tp topic.Topic) {
	t.Helper()
	files, err := filepath.Glob("testdata/samples/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no machines in testdata/samples: %v", err)
	}
	for _, f := range files {
		t.Run(strings.TrimSuffix(filepath.Base(f), ".txtar"), func(t *testing.T) { samples(t, tp, f) })
	}
}

func samples(t *testing.T, tp topic.Topic, file string) {
	ar, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	machine := &host.Fake{Files: map[string]string{}, Time: Taken}
	want := -1
	for i, f := range ar.Files {
		switch {
		case strings.HasPrefix(f.Name, "/"):
			machine.Files[f.Name] = string(f.Data)
		case f.Name == "machine.json":
			if err := json.Unmarshal(f.Data, &struct {
				Spaces *map[string]host.Space
				Looked *map[string]string
				Pages  *map[string]string
				Shown  *map[string]host.Table
				Clock  **host.Clock
			}{&machine.Spaces, &machine.Looked, &machine.Pages, &machine.Shown, &machine.Kept}); err != nil {
				t.Fatalf("%s: machine.json: %v", file, err)
			}
		case f.Name == "want":
			want = i
		default:
			t.Fatalf("%s: file %q is of no use", file, f.Name)
		}
	}
	got := Read(t, machine, tp.Collectors...)
	if want < 0 {
		ar.Files = append(ar.Files, txtar.File{Name: "want"})
		want = len(ar.Files) - 1
	}
	if Updating() {
		ar.Files[want].Data = []byte(got)
		if err := os.WriteFile(file, txtar.Format(ar), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if w := string(ar.Files[want].Data); got != w {
		t.Errorf("%s:\ngot:\n%s\nwant:\n%s", file, got, w)
	}
}

// Read runs collectors once and writes what they read, sorted: one line for
// each sample and each gap. A metric or label that was not declared fails.
func Read(t *testing.T, r host.Reader, cs ...*metric.Collector) string {
	t.Helper()
	var lines []string
	for _, c := range cs {
		out := metric.NewOut(c, Taken)
		err := c.Collect(t.Context(), r, out)
		if out.Err() != nil {
			t.Error(out.Err())
		}
		if err != nil {
			out.Rows = nil
			out.Gap(err.Error(), fail.HintOf(err))
		}
		for _, row := range out.Rows {
			lines = append(lines, fmt.Sprintf("%s %s", row.Series.Key(), strconv.FormatFloat(row.Points[0].Value, 'g', -1, 64)))
		}
		for _, g := range out.Gaps {
			line := fmt.Sprintf("gap %s %s: %s", c.Name, strings.Join(g.Metrics, " "), g.Because)
			if g.Hint != "" {
				line += " | " + g.Hint
			}
			lines = append(lines, strings.ReplaceAll(line, "\n", " "))
		}
	}
	sort.Strings(lines)
	return strings.Join(lines, "\n") + "\n"
}
