package script

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"headroom/cli"
)

// TestPublishedCommandsAreExercised: whatever the README and the help publish
// is run by a story: the same verb with the same flags.
func TestPublishedCommandsAreExercised(t *testing.T) {
	var stories []string
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		stories = append(stories, strings.Split(string(b), "\n")...)
	}
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	published := append(cli.Examples(), fromReadme(string(readme))...)
	if len(published) < 20 {
		t.Fatalf("only %d commands found: %q", len(published), published)
	}
	for _, cmd := range published {
		if !exercised(cmd, stories) {
			t.Errorf("no story runs this: %s (verb and flags: %q)", cmd, parts(cmd))
		}
	}
}

func exercised(cmd string, stories []string) bool {
	want := parts(cmd)
	for _, line := range stories {
		have := map[string]bool{}
		for _, w := range parts(line) {
			have[w] = true
		}
		all := true
		for _, w := range want {
			all = all && have[w]
		}
		if all {
			return true
		}
	}
	return false
}

var quoted = regexp.MustCompile(`'[^']*'`)

// parts is a command's verb and flags.
func parts(line string) []string {
	i := strings.Index(line, "headroom ")
	if i < 0 {
		return nil
	}
	line, _, _ = strings.Cut(line[i:], " #")
	words := strings.Fields(quoted.ReplaceAllString(line, "Q"))
	if len(words) < 2 {
		return nil
	}
	out := []string{words[1]}
	for _, w := range words[2:] {
		if strings.HasPrefix(w, "-") {
			name, _, _ := strings.Cut(w, "=")
			out = append(out, name)
		}
	}
	return out
}

// fromReadme finds the commands in code blocks and in the first column of tables.
func fromReadme(text string) (out []string) {
	code := false
	for _, line := range strings.Split(text, "\n") {
		if strings.HasPrefix(line, "```") {
			code = !code
			continue
		}
		if code && strings.Contains(line, "headroom ") {
			out = append(out, strings.TrimPrefix(line, "bin/"))
		}
		if m := regexp.MustCompile("^\\| `(headroom [^`]*)`").FindStringSubmatch(line); m != nil {
			out = append(out, m[1])
		}
	}
	return out
}
