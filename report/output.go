package report

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"headroom/fail"
	"headroom/host"
)

// Output is where results go: one format on standard output, and any number
// of files besides.
type Output struct {
	to []target
}

type target struct {
	format   Format
	w        io.Writer
	terminal Terminal
	path     string // a file that is written whole at the end
	file     *os.File
}

// Open reads the values of -o and makes sure that each file can be written,
// before any long work begins. env is os.Getenv. No value means text on
// standard output. Errors name what is allowed (exit status fail.Usage) or the
// file. Close it.
func Open(values []string, stdout io.Writer, env func(string) string) (*Output, error) {
	wants, err := parseFlags(values)
	if err != nil {
		return nil, err
	}
	o := &Output{}
	for _, w := range wants {
		t := target{format: w.format, w: stdout, terminal: TerminalOf(stdout, env), path: w.path}
		if w.path != "" {
			t.terminal = Terminal{Width: defaultWidth, UTF8: true}
			if err := t.open(); err != nil {
				return nil, errors.Join(err, o.Close())
			}
		}
		o.to = append(o.to, t)
	}
	return o, nil
}

// open proves that the file can be made; a pipe or device is opened as it is.
func (t *target) open() error {
	st, err := os.Stat(t.path)
	if err == nil && st.IsDir() {
		return fail.With(fmt.Errorf("write %s: it is a folder", t.path), fail.Usage)
	}
	if err == nil && !st.Mode().IsRegular() {
		t.file, err = os.OpenFile(t.path, os.O_WRONLY, 0)
		if err != nil {
			return fmt.Errorf("write %s: %w", t.path, err)
		}
		t.w = t.file
		return nil
	}
	if real, err := filepath.EvalSymlinks(t.path); err == nil {
		t.path = real
	}
	if t.path, err = filepath.Abs(t.path); err != nil {
		return fmt.Errorf("write %s: %w", t.path, err)
	}
	probe, err := os.CreateTemp(filepath.Dir(t.path), ".headroom-*.tmp")
	if err != nil {
		return fmt.Errorf("write %s: its folder takes no file: %w", t.path, errors.Unwrap(err))
	}
	t.w = nil
	return errors.Join(probe.Close(), os.Remove(probe.Name()))
}

// Print writes the sections in every format asked for; call it once. Files
// appear whole or not at all. title heads a page; it may be empty.
func (o *Output) Print(title string, sections ...Section) error {
	for _, t := range o.to {
		var b bytes.Buffer
		if err := Render(&b, t.format, t.terminal, title, sections...); err != nil {
			return err
		}
		if t.w != nil {
			if _, err := t.w.Write(b.Bytes()); err != nil {
				return fmt.Errorf("write %s: %w", t.format, err)
			}
			continue
		}
		if err := host.WriteDurable(t.path, b.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// File is a file that is written once, when its content is there. A pipe or
// device is written to as it is, and never replaced.
type File struct{ t target }

// OpenFile makes sure that the file can be written, before any long work
// begins. Close it. No path is a File that Write leaves alone.
func OpenFile(path string) (*File, error) {
	f := &File{target{path: path}}
	if path == "" {
		return f, nil
	}
	return f, f.t.open()
}

// Write writes the content, whole or not at all; mode is that of a new file.
func (f *File) Write(content []byte, mode os.FileMode) error {
	switch {
	case f.t.path == "":
		return nil
	case f.t.file == nil:
		return host.WriteDurable(f.t.path, content, mode)
	}
	if _, err := f.t.file.Write(content); err != nil {
		return fmt.Errorf("write %s: %w", f.t.path, err)
	}
	return nil
}

// Close releases what OpenFile opened.
func (f *File) Close() error {
	if f.t.file == nil {
		return nil
	}
	return f.t.file.Close()
}

// Format is the form of standard output.
func (o *Output) Format() Format {
	for _, t := range o.to {
		if t.path == "" {
			return t.format
		}
	}
	return Text
}

// Close releases what Open opened.
func (o *Output) Close() error {
	var err error
	for _, t := range o.to {
		if t.file != nil {
			err = errors.Join(err, t.file.Close())
		}
	}
	return err
}

// Render writes the sections in one format. Only Text looks at the terminal.
func Render(w io.Writer, f Format, t Terminal, title string, sections ...Section) error {
	switch f {
	case Text:
		return renderText(w, t, sections)
	case JSON:
		return renderJSON(w, title, sections)
	case CSV:
		return renderCSV(w, sections)
	case Markdown:
		return renderMarkdown(w, title, sections)
	case HTML:
		return renderHTML(w, title, sections)
	}
	return fmt.Errorf("write results: no format %q", f)
}
