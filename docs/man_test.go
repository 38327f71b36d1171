package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"headroom/cli"
)

// Every verb that help lists has a page, which names its flags.
func TestManPages(t *testing.T) {
	dir := t.TempDir()
	if err := manPages(dir, time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)); err != nil {
		t.Fatal(err)
	}
	for name, parts := range map[string][]string{
		"headroom.1": {`.TH "HEADROOM" "1" "Jan 2026"`, "headroom-check(1)"}, "headroom-up.1": {`\-\-retention`, "SYNOPSIS"},
		"headroom-up-token-create.1": {`\-\-scope`}, "headroom-apply.1": {`\-\-confirm-within`, "EXAMPLE"},
	} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Error(err)
			continue
		}
		for _, p := range parts {
			if !strings.Contains(string(b), p) && !strings.Contains(string(b), strings.ReplaceAll(p, `\-`, "-")) {
				t.Errorf("%s has no %q", name, p)
			}
		}
	}
	for _, c := range cli.Verbs().Commands() {
		_, err := os.Stat(filepath.Join(dir, "headroom-"+c.Name()+".1"))
		if hidden := c.Hidden || c.Name() == "help" || c.Name() == "completion"; (err == nil) == hidden {
			t.Errorf("%s: hidden %v, page: %v", c.Name(), hidden, err)
		}
	}
}
