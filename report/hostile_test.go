package report

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"headroom/change"
	"headroom/check"
	"headroom/trial"
)

// evil are names that want to be more than names.
var evil = []string{"<script>alert(1)</script>", "\x1b[2J\x1b]0;owned\x07", "a\u202egnp.exe", "two\nlines\r\nthree", "tab\there", "\xff\xfe", "\u009b31m",
	"| pipe | `tick` ``` *star* _under_ [x](javascript:alert(1))", `"><img src=x onerror=alert(1)>`, "=cmd|' /C calc'!A0", "zero\u200bwidth", "nul\x00byte",
	"{{.Title}}", "--flag", "\u2028line", "é", "表", "</style><script>", "]]>", "&lt;"}

// hostileName draws one of the evil names, or anything at all.
var hostileName = rapid.OneOf(rapid.SampledFrom(evil), rapid.String(), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }))

func hostileSections(t *rapid.T) []Section {
	s := func() string { return hostileName.Draw(t, "name") }
	sp := change.Spec{ID: "postgres.setting", Object: s(), Args: map[string]string{"x": s()}}
	o := check.Outcome{Findings: []check.Finding{{Check: "disk.x", Subject: s(), Severity: check.Warning, Basis: check.Basis(s()), Summary: s(), Hint: s(),
		Evidence: []check.Cite{{Name: s(), Value: s(), Source: s()}}, Fixes: []change.Spec{sp}, Try: &check.Try{Change: sp, Workload: s()}}},
		NotChecked: []check.Unchecked{{Check: "disk.y", Subject: s(), Because: s()}}}
	plan := somePlan()
	plan.Changes[0].Change.Subject, plan.Changes[0].Change.Why = s(), s()
	file := change.File{Path: "/etc/" + s(), Content: s() + "\n" + s()}
	plan.Changes[1].Steps = append(plan.Changes[1].Steps, change.PlannedStep{Step: file, Before: change.State{Present: true, Value: s()},
		After: change.State{Present: true, Value: file.Content}, Undo: file})
	r := &trial.Result{Name: s(), Workload: s(), Question: s(), Where: s(), Measures: []trial.Measure{{Name: "rate", Noun: s()}}, Warnings: []string{s()}, Started: time.Unix(0, 0),
		Arms:   []trial.ArmResult{{Arm: trial.Arm{Name: s()}}, {Arm: trial.Arm{Name: s()}}},
		Rounds: []trial.RoundResult{{At: 1, Figures: map[string]float64{"rate": 1}, Marks: []trial.Mark{{Cause: "process", Text: s()}}}, {At: 2, Arm: 1, Counts: true, Figures: map[string]float64{"rate": 2}}}}
	return []Section{Findings(o, emptyFacts()), Plan(plan, s()), Trial(r), Moved(&change.Moved{Verb: s(), Rows: []change.MovedRow{{Name: s(), Values: [3]string{s(), s(), s()}}}})}
}

func TestHostileNamesStayNames(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		title := hostileName.Draw(t, "title")
		sections := hostileSections(t)
		for _, f := range []Format{Text, JSON, CSV, Markdown, HTML} {
			for _, term := range []Terminal{{Width: 80, UTF8: true}, {Width: 40}} {
				var b bytes.Buffer
				if err := Render(&b, f, term, title, sections...); err != nil {
					t.Fatal(err)
				}
				judge(t, f, term, b.String())
			}
		}
	})
}

// judge looks for what must not come through.
func judge(t *rapid.T, f Format, term Terminal, out string) {
	if !utf8.ValidString(out) {
		t.Fatalf("%s is not UTF-8", f)
	}
	for _, r := range out {
		if r != '\n' && hidden(r) && !(f == JSON && r == utf8.RuneError) {
			t.Fatalf("%s holds %U", f, r)
		}
		if f == Text && !term.UTF8 && r > 0x7e {
			t.Fatalf("text for a plain terminal holds %q", r)
		}
	}
	low := strings.ToLower(out)
	switch f {
	case HTML:
		for _, bad := range []string{"<script", "<img", "</style><", "javascript:alert(1)\""} {
			if strings.Contains(strings.ReplaceAll(low, pageStyle, ""), bad) {
				t.Fatalf("html holds %s", bad)
			}
		}
	case Markdown:
		if at := strings.Index(outsideCode(low), "<script"); at >= 0 {
			t.Fatalf("markdown holds <script outside of code: %s", low)
		}
	case JSON:
		if !json.Valid([]byte(out)) {
			t.Fatal("not JSON")
		}
	case CSV:
		for _, part := range strings.Split(out, "\n\n") {
			if _, err := csv.NewReader(strings.NewReader(part)).ReadAll(); err != nil {
				t.Fatalf("csv: %v", err)
			}
		}
	}
}

// outsideCode leaves out fenced blocks and lines with code spans.
func outsideCode(s string) string {
	var out []string
	fence := ""
	for _, l := range strings.Split(s, "\n") {
		ticks := l[:len(l)-len(strings.TrimLeft(l, "`"))]
		switch {
		case fence == "" && len(ticks) >= 3:
			fence = ticks
		case fence != "" && l == fence:
			fence = ""
		case fence == "" && !strings.HasPrefix(l, "- fix: `") && !strings.HasPrefix(l, "- proof: `") && !strings.HasPrefix(l, "- apply: `") && !strings.HasPrefix(l, "- safer: `"):
			out = append(out, l)
		}
	}
	return strings.Join(out, "\n")
}

func TestJSONKeepsTheData(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := strings.ToValidUTF8(hostileName.Draw(t, "name"), "?")
		var b bytes.Buffer
		o := check.Outcome{Findings: []check.Finding{{Subject: name}}}
		if err := Render(&b, JSON, Terminal{}, "", Findings(o, emptyFacts())); err != nil {
			t.Fatal(err)
		}
		var back struct {
			Headroom string
			Format   string
			Schema   int
			Findings []check.Finding
		}
		if err := json.Unmarshal(b.Bytes(), &back); err != nil {
			t.Fatal(err)
		}
		if back.Findings[0].Subject != name || back.Format != "headroom-findings" || back.Schema != 1 {
			t.Fatalf("wrote %q, read %q (%+v)", name, back.Findings[0].Subject, back)
		}
	})
}

func TestCleanWritesOutWhatCannotBeSeen(t *testing.T) {
	for in, want := range map[string]string{"a\x1b[31mb": `a\x1b[31mb`, "a\nb\tc": `a\nb\tc`, "\u202ex": `\u202ex`, "\xffx": `\xffx`, "é 表 µ": "é 表 µ",
		"\U000e0001": `\U000e0001`, "a\x7f": `a\x7f`, "": ""} {
		if got := clean(in); got != want {
			t.Errorf("clean(%q) = %q, want %q", in, got, want)
		}
	}
	if got := toASCII("1GB → 10GB × 2 µs é"); got != `1GB -> 10GB x 2 us \u00e9` {
		t.Errorf("ascii: %q", got)
	}
}

func TestTextFitsItsWidth(t *testing.T) {
	for name, s := range everything(t) {
		for _, width := range []int{40, 60, 80, 120} {
			var b bytes.Buffer
			if err := Render(&b, Text, Terminal{Width: width, UTF8: true}, "", s); err != nil {
				t.Fatal(err)
			}
			for _, l := range strings.Split(b.String(), "\n") {
				command := strings.Contains(l, "headroom ")
				words := strings.Fields(l)
				unbreakable := len(words) > 0 && len(words) <= 3 && wide(words[len(words)-1]) > width-30
				diff := strings.HasPrefix(l, "    -") || strings.HasPrefix(l, "    +")
				if wide(l) > width && !command && !unbreakable && !diff {
					t.Errorf("%s at %d columns: %d wide: %q", name, width, wide(l), l)
				}
			}
		}
	}
}

func TestCommandsStayWhole(t *testing.T) {
	var b bytes.Buffer
	long := change.Spec{ID: "postgres.setting", Args: map[string]string{"log_line_prefix": strings.Repeat("%m [%p] ", 20)}}
	o := check.Outcome{Findings: []check.Finding{{Subject: "server", Fixes: []change.Spec{long}}}}
	if err := Render(&b, Text, Terminal{Width: 60, UTF8: true}, "", Findings(o, emptyFacts())); err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("  headroom plan %s\n", long); !strings.Contains(b.String(), want) {
		t.Errorf("want one line with %q in:\n%s", want, b.String())
	}
}
