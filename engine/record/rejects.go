package record

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"headroom/fail"
)

// Rejects is the file that bad records go to: one line each, with line,
// column, reason and the record as written, tab-separated, escaped as COPY's
// text format, so that COPY reads it back; of bytes that no text can hold it
// reads back the form \x00. It is only ever appended to. Its methods may be
// called at the same time.
type Rejects struct {
	mu    sync.Mutex
	f     *os.File
	w     *bufio.Writer
	path  string
	max   int64
	count int64
	dirty bool
}

const rejectsHeader = "line\tcolumn\treason\trecord\n"

// OpenRejects opens the file at path, or makes it, and sees that it survives a
// power loss. At most max records may be bad in this run; below 0: any number.
// With an empty path nothing is written: Add fails at the first bad record.
func OpenRejects(path string, max int64) (*Rejects, error) {
	r := &Rejects{path: path, max: max}
	if path == "" {
		return r, nil
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open rejects: %w", err)
	}
	r.f, r.w = f, bufio.NewWriter(f)
	st, err := f.Stat()
	if err == nil && st.Size() == 0 && st.Mode().IsRegular() {
		if _, err = r.w.WriteString(rejectsHeader); err == nil {
			r.dirty = true
			err = r.Sync()
		}
		if err == nil {
			err = syncFolder(filepath.Dir(path))
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open rejects: %w", err), f.Close())
	}
	return r, nil
}

func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Add writes one bad record. It fails at the first one without a file, and
// after max of them, naming the last reason; the run is to stop then.
func (r *Rejects) Add(b Bad) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count++
	if r.path == "" {
		return fail.Hint(&b, "correct the line, or pass over bad ones: --rejects FILE")
	}
	r.dirty = true
	line := make([]byte, 0, 256)
	line = strconv.AppendInt(line, b.Line, 10)
	line = append(append(line, '\t'), escape(b.Column)...)
	line = append(append(line, '\t'), escape(b.Reason)...)
	line = append(append(line, '\t'), cutRaw(b)...)
	if _, err := r.w.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("write rejects: %w", err)
	}
	if r.max >= 0 && r.count > r.max {
		return fail.Hint(fmt.Errorf("stop: %d bad records, at most %d are allowed; the last: %w", r.count, r.max, &b),
			"see %s; allow more with --max-rejects", r.path)
	}
	return nil
}

// cutRaw is the record, escaped; of a long one the beginning and its length.
func cutRaw(b Bad) []byte {
	size := max(b.Bytes, int64(len(b.Raw)))
	if size <= keptRaw {
		return escape(string(b.Raw))
	}
	out := escape(string(b.Raw[:min(keptRaw, len(b.Raw))]))
	return fmt.Appendf(out, "… (%d bytes)", size)
}

// escape writes a value of COPY's text format. Control characters are written
// as escapes, too, so that the file can be looked at on a terminal.
func escape(s string) []byte {
	out := make([]byte, 0, len(s)+8)
	for i, r := range s {
		switch c := s[i]; {
		case c == '\\':
			out = append(out, `\\`...)
		case c == '\t':
			out = append(out, `\t`...)
		case c == '\n':
			out = append(out, `\n`...)
		case c == '\r':
			out = append(out, `\r`...)
		case c == 0, r == utf8.RuneError && !strings.HasPrefix(s[i:], "\uFFFD"):
			out = fmt.Appendf(out, `\\x%02x`, c)
		case c < ' ' || c == 0x7f:
			out = fmt.Appendf(out, `\x%02x`, c)
		default:
			out = utf8.AppendRune(out, r)
		}
	}
	return out
}

// Count is how many bad records there were in this run.
func (r *Rejects) Count() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.count
}

// Sync returns when all that was added survives a power loss. Call it before
// the input behind a bad record is said to be done.
func (r *Rejects) Sync() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.f == nil || !r.dirty {
		return nil
	}
	if err := r.w.Flush(); err != nil {
		return fmt.Errorf("write rejects: %w", err)
	}
	if st, err := r.f.Stat(); err == nil && st.Mode().IsRegular() {
		if err := r.f.Sync(); err != nil {
			return fmt.Errorf("write rejects %s: %w", r.path, err)
		}
	}
	r.dirty = false
	return nil
}

// Close is Sync and closes the file.
func (r *Rejects) Close() error {
	err := r.Sync()
	if r.f != nil {
		err = errors.Join(err, r.f.Close())
		r.f, r.path = nil, ""
	}
	return err
}
