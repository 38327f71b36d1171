package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"headroom/host"
)

// resultsKept is how many results of trials and labs are kept; the oldest go.
const resultsKept = 200

var resultName = regexp.MustCompile(`^\d{8}-\d{6}-[a-z0-9-]+\.json$`)

// keepResult saves a result below our own folder of results, where the page of
// `headroom up` shows it. It is a convenience: that it fails is said and ends
// nothing.
func (a *app) keepResult(name string, at time.Time, save func(io.Writer) error) {
	if err := tryKeep(name, at, save); err != nil {
		fmt.Fprintf(a.err, "note: the result was not kept for the page of `headroom up`: %v\n", err)
	}
}

func tryKeep(name string, at time.Time, save func(io.Writer) error) error {
	dirs, err := host.OwnDirs()
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := save(&b); err != nil {
		return err
	}
	dir := filepath.Join(dirs.State, "results")
	if err := errors.Join(os.MkdirAll(dirs.State, 0o711), host.MakeShared(dir)); err != nil {
		return fmt.Errorf("make folder for results: %w", err)
	}
	file := at.UTC().Format("20060102-150405-") + slug(name) + ".json"
	if err := host.WriteDurableShared(filepath.Join(dir, file), b.Bytes(), 0o600); err != nil {
		return err
	}
	return dropOldResults(dir)
}

// slug makes a file's name of a title.
func slug(title string) string {
	words := strings.FieldsFunc(strings.ToLower(title), func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') })
	name := strings.Join(words, "-")
	return strings.TrimRight(name[:min(len(name), 60)], "-")
}

// dropOldResults removes what is past resultsKept; only files that keepResult
// named.
func dropOldResults(dir string) error {
	files, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("list results: %w", err)
	}
	files = slices.DeleteFunc(files, func(f fs.DirEntry) bool { return !resultName.MatchString(f.Name()) })
	for len(files) > resultsKept {
		if err := os.Remove(filepath.Join(dir, files[0].Name())); err != nil {
			return fmt.Errorf("remove an old result: %w", err)
		}
		files = files[1:]
	}
	return nil
}
