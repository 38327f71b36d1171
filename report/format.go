package report

import (
	"fmt"
	"slices"
	"strings"

	"headroom/fail"
)

// Format is a way to write sections.
type Format string

// The formats, as -o takes them.
const (
	Text     Format = "text"
	JSON     Format = "json"
	CSV      Format = "csv"
	Markdown Format = "md"
	HTML     Format = "html"
)

// Formats lists the names that -o takes.
func Formats() []string {
	return []string{string(Text), string(JSON), string(CSV), string(Markdown), string(HTML)}
}

// FlagHelp is the help text of the -o flag.
const FlagHelp = "form of the results: text, json, csv, md or html; -o FORM=FILE writes a file besides, and may be given several times"

// want is one parsed -o.
type want struct {
	format Format
	path   string // "": standard output
}

// parseFlags reads the values of -o. Text goes to standard output unless a
// format without a file says otherwise. Errors are usage errors that name what
// is allowed.
func parseFlags(values []string) ([]want, error) {
	var out []want
	bare := ""
	for _, v := range values {
		name, path, toFile := strings.Cut(v, "=")
		if !slices.Contains(Formats(), name) {
			return nil, usage(v, fmt.Sprintf("there is no format %q", name))
		}
		if toFile && path == "" {
			return nil, usage(v, "no file named after =")
		}
		if !toFile && bare != "" {
			return nil, usage(v, fmt.Sprintf("standard output is taken by %s", bare))
		}
		if !toFile {
			bare = name
		}
		if slices.ContainsFunc(out, func(w want) bool { return toFile && w.path == path }) {
			return nil, usage(v, "the file is named twice")
		}
		out = append(out, want{Format(name), path})
	}
	if bare == "" {
		out = append([]want{{format: Text}}, out...)
	}
	return out, nil
}

func usage(value, why string) error {
	return fail.With(fail.Hint(fmt.Errorf("read -o %s: %s", value, why),
		"write -o FORMAT or -o FORMAT=FILE with one of: %s", strings.Join(Formats(), ", ")), fail.Usage)
}
