package report

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/creack/pty"

	"headroom/fail"
	"headroom/stats"
	"headroom/trial"
)

func env(pairs ...string) func(string) string {
	return func(name string) string {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		return ""
	}
}

func TestFlagsThatMakeNoSense(t *testing.T) {
	for _, values := range [][]string{{"xml"}, {"json", "csv"}, {"html="}, {"json=a", "csv=a"}, {""}} {
		_, err := Open(values, io.Discard, env())
		if fail.Code(err) != fail.Usage || !strings.Contains(fail.HintOf(err), "text, json, csv, md, html") {
			t.Errorf("-o %q: %v, hint %q", values, err, fail.HintOf(err))
		}
	}
}

func TestSeveralFormatsAtOnce(t *testing.T) {
	dir := t.TempDir()
	page := filepath.Join(dir, "r.html")
	if err := os.WriteFile(page, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	var stdout bytes.Buffer
	o, err := Open([]string{"html=" + page, "json=" + filepath.Join(dir, "r.json")}, &stdout, env("LANG", "C.UTF-8"))
	if err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if err := o.Print("t", Findings(someFindings(), someFacts(t))); err != nil {
		t.Fatal(err)
	}
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{page: "<!DOCTYPE html>", filepath.Join(dir, "r.json"): `"headroom-findings"`} {
		got, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(got), want) {
			t.Errorf("%s: %v, no %q", path, err, want)
		}
	}
	if !strings.HasPrefix(stdout.String(), "4 findings: 1 danger") || o.Format() != Text {
		t.Errorf("standard output: %q", stdout.String())
	}
}

func TestFileThatCannotBeWrittenIsToldBeforeTheWork(t *testing.T) {
	for _, path := range []string{"/nonexistent/r.json", t.TempDir()} {
		if _, err := Open([]string{"json=" + path}, io.Discard, env()); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestTerminal(t *testing.T) {
	ptmx, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer ptmx.Close()
	defer tty.Close()
	if err := pty.Setsize(tty, &pty.Winsize{Rows: 24, Cols: 100}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		w    io.Writer
		env  []string
		want Terminal
	}{
		{"terminal", tty, []string{"LANG", "de_DE.UTF-8"}, Terminal{true, true, true, 100}},
		{"no colour", tty, []string{"NO_COLOR", "1", "CLICOLOR_FORCE", "1", "LC_ALL", "C", "LANG", "C.UTF-8"}, Terminal{true, false, false, 100}},
		{"dumb", tty, []string{"TERM", "dumb", "LC_CTYPE", "C.utf8"}, Terminal{false, false, true, 100}},
		{"columns", tty, []string{"COLUMNS", "60"}, Terminal{true, true, false, 60}},
		{"wide", tty, []string{"COLUMNS", "400"}, Terminal{true, true, false, maxWidth}},
		{"pipe", io.Discard, nil, Terminal{false, false, false, 80}},
		{"forced", io.Discard, []string{"CLICOLOR_FORCE", "1"}, Terminal{false, true, false, 80}},
		{"not forced", io.Discard, []string{"CLICOLOR_FORCE", "0", "COLUMNS", "x"}, Terminal{false, false, false, 80}},
	} {
		if got := TerminalOf(c.w, env(c.env...)); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

func TestColourChangesNothingElse(t *testing.T) {
	codes := regexp.MustCompile("\x1b\\[[0-9;]*m")
	for name, s := range everything(t) {
		var bland, bright bytes.Buffer
		for w, color := range map[io.Writer]bool{&bland: false, &bright: true} {
			if err := Render(w, Text, Terminal{Width: 80, UTF8: true, Color: color}, "", s); err != nil {
				t.Fatal(err)
			}
		}
		if bright.String() == bland.String() && name == "findings" {
			t.Errorf("%s has no colour", name)
		}
		trimmed := regexp.MustCompile(" +\n").ReplaceAllString(codes.ReplaceAllString(bright.String(), ""), "\n")
		if trimmed != bland.String() {
			t.Errorf("%s: colour changes the text:\n%s", name, trimmed)
		}
	}
}

func TestPageNeedsNothingElse(t *testing.T) {
	var all []Section
	for _, s := range everything(t) {
		all = append(all, s)
	}
	var b bytes.Buffer
	if err := Render(&b, HTML, Terminal{}, "Headroom: all", all...); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"<script", "<link", "<img", "<iframe", "http://", "https://", "@import", "url(", " style=", " on"} {
		if at := strings.Index(b.String(), bad+""); at >= 0 && bad != " on" {
			t.Errorf("the page holds %q: …%.80s", bad, b.String()[at:])
		}
	}
	if m := regexp.MustCompile(`<[^>]* on[a-z]+=`).FindString(b.String()); m != "" {
		t.Errorf("the page holds a handler: %s", m)
	}
	for _, want := range []string{"default-src &#39;none&#39;", `lang="en"`, `role="img"`, "<desc>", "prefers-color-scheme:dark", "@media print"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if b.Len() > 300<<10 {
		t.Errorf("the page weighs %d bytes", b.Len())
	}
}

func TestProgressWhereNothingCanBeDrawnOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		p := NewProgress(&b, env("LANG", "C.UTF-8"))
		p.Say("reading facts")
		p.Event(trial.Event{Phase: trial.Measuring, Block: 1, Blocks: 20, Text: "base"})
		for i := range 8 {
			time.Sleep(3 * time.Second)
			p.Event(trial.Event{Phase: trial.Measuring, Block: i + 2, Blocks: 20, Left: time.Minute,
				Estimates: []trial.Estimate{{Arm: "big", Ratio: stats.Interval{Lo: 1.1, Center: 1.2, Hi: 1.3}}}})
		}
		p.Event(trial.Event{Phase: trial.Preparing, Text: trial.Found + "a server that was left"})
		p.Note("a note\x1b[2J")
		p.Done()
		p.Done()
		lines := strings.Split(strings.TrimSpace(b.String()), "\n")
		want := []string{"0:00  reading facts", "0:00  measuring, block 1 of 20  base",
			"0:10  measuring, block 4 of 20  big 1.20 × (1.10–1.30)  at most 60 s left", "0:20  measuring, block 7 of 20  big 1.20 × (1.10–1.30)  at most 60 s left", "found: a server that was left", `a note\x1b[2J`}
		if strings.Join(lines, "\n") != strings.Join(want, "\n") {
			t.Errorf("got:\n%s\nwant:\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
		}
	})
}

func TestProgressOnATerminal(t *testing.T) {
	ptmx, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer ptmx.Close()
	p := NewProgress(tty, env("LANG", "C.UTF-8", "COLUMNS", "40", "TERM", "xterm"))
	p.Say("copying a very long name that does not fit into the forty columns of this terminal")
	p.Done()
	if err := tty.Close(); err != nil {
		t.Fatal(err)
	}
	out, err := io.ReadAll(ptmx) // one Read may bring a part only
	if err != nil && !errors.Is(err, syscall.EIO) {
		t.Fatal(err)
	}
	got := string(out)
	if !strings.HasPrefix(got, "\r\x1b[K") || !strings.Contains(got, "0:00  copying a very long name") || strings.Contains(got, "columns") {
		t.Errorf("drew %q", got)
	}
	if !strings.HasSuffix(got, "\r\x1b[K") {
		t.Errorf("the line stays: %q", got)
	}
}

// A device or a link is written through, not replaced; a folder that is not
// there is told before the work.
func TestAFileBesides(t *testing.T) {
	dir := t.TempDir()
	if _, err := OpenFile(filepath.Join(dir, "no", "x")); err == nil {
		t.Error("a file in no folder is taken")
	}
	write := func(path string) {
		t.Helper()
		f, err := OpenFile(path)
		if err == nil {
			err = errors.Join(f.Write([]byte("figures"), 0o600), f.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	link, file := filepath.Join(dir, "link"), filepath.Join(dir, "file")
	for _, err := range []error{os.WriteFile(file, nil, 0o644), os.Symlink(file, link)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	write(link)
	if b, err := os.ReadFile(file); err != nil || string(b) != "figures" {
		t.Errorf("%q, %v", b, err)
	}
	master, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	defer tty.Close()
	write(tty.Name())
	if st, err := os.Stat(tty.Name()); err != nil || st.Mode()&os.ModeCharDevice == 0 {
		t.Errorf("the device is %v, %v", st, err)
	}
	write("")
}
