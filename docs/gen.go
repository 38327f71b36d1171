// Command docs writes the pages below docs/ that are made from declarations:
// one for each check, change, workload and lab, and the lists of facts and of
// metrics. Run it at the top of the repository: go run ./docs. With -man FOLDER
// it writes the manual pages there instead.
package main

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"time"

	"headroom/report"
	"headroom/topic/all"
)

//go:generate go run .

func main() {
	man := flag.String("man", "", "write the manual pages into this folder")
	flag.Parse()
	if err := run(*man); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(man string) error {
	if man != "" {
		return manPages(man, time.Now())
	}
	dir := "docs"
	if _, err := os.Stat("gen.go"); err == nil {
		dir = "." // go generate runs here
	}
	pages, err := everyPage(dir)
	if err == nil {
		err = write(dir, pages)
	}
	return err
}

// everyPage makes all pages; dir is the docs folder.
func everyPage(dir string) (map[string]string, error) {
	pages := report.Pages(all.Topics())
	maps.Copy(pages, report.LabPages(all.Topics()))
	pages["metrics.md"] = metricsPage(all.Topics())
	results, err := resultPages(filepath.Join(dir, "..", "bench", "results"))
	maps.Copy(pages, results)
	return pages, err
}

// folders hold nothing but generated pages.
var folders = []string{"checks", "changes", "workloads", "labs"}

// write puts the pages below dir and removes those of things that are gone.
func write(dir string, pages map[string]string) error {
	for _, f := range folders {
		if err := os.MkdirAll(filepath.Join(dir, f), 0o755); err != nil {
			return fmt.Errorf("write pages: %w", err)
		}
		old, err := stale(dir, f, pages)
		if err != nil {
			return err
		}
		for _, path := range old {
			if err := os.Remove(path); err != nil {
				return fmt.Errorf("remove page: %w", err)
			}
		}
	}
	for name, text := range pages {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return fmt.Errorf("write page: %w", err)
		}
	}
	return nil
}

// stale lists the pages in a folder that no declaration makes.
func stale(dir, folder string, pages map[string]string) ([]string, error) {
	have, err := filepath.Glob(filepath.Join(dir, folder, "*.md"))
	if err != nil {
		return nil, fmt.Errorf("list pages: %w", err)
	}
	var out []string
	for _, path := range have {
		if _, ok := pages[folder+"/"+filepath.Base(path)]; !ok {
			out = append(out, path)
		}
	}
	return out, nil
}
