package main

import (
	"cmp"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"headroom/cli"
)

// manPages writes a manual page for each verb, headroom-VERB.1, into a folder.
func manPages(dir string, date time.Time) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("write manual pages: %w", err)
	}
	root := cli.Verbs()
	quietFoot(root)
	return doc.GenManTree(root, &doc.GenManHeader{Title: "HEADROOM", Section: "1", Source: "headroom " + cmp.Or(root.Version, "unknown"), Manual: "Headroom", Date: &date}, dir)
}

// quietFoot leaves out the line that says what made the page.
func quietFoot(c *cobra.Command) {
	c.DisableAutoGenTag = true
	for _, sub := range c.Commands() {
		quietFoot(sub)
	}
}
