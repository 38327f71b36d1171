package pglocal

import (
	"io"
	"strings"
)

// logFrom reads the log's lines from byte off on, at most the last 256 kB.
func (s *Server) logFrom(off int64) []string {
	fi, err := s.log.Stat()
	if err != nil {
		return nil
	}
	off = max(off, fi.Size()-256<<10)
	b, err := io.ReadAll(io.NewSectionReader(s.log, off, fi.Size()-off))
	text := strings.TrimRight(string(b), "\n")
	if err != nil || text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

// words finds what a server that could not run said about it: the last line
// of level FATAL, PANIC or ERROR with its detail and hint. Where that only
// says that a file contains errors, the lines that name them come first.
func words(lines []string) string {
	last := -1
	for i, l := range lines {
		if level(l, "FATAL", "PANIC", "ERROR") && !strings.Contains(l, "the database system is") {
			last = i
		}
	}
	if last < 0 {
		return strings.Join(lines[max(0, len(lines)-2):], "; ")
	}
	from, to := last, last+1
	for strings.Contains(lines[last], "contains errors") && from > 0 && level(lines[from-1], "LOG") {
		from--
	}
	for to < len(lines) && level(lines[to], "DETAIL", "HINT") {
		to++
	}
	said := make([]string, 0, to-from)
	for _, l := range lines[from:to] {
		said = append(said, unstamped(l))
	}
	return strings.Join(said, "; ")
}

func level(line string, levels ...string) bool {
	for _, l := range levels {
		if strings.Contains(line, l+":  ") {
			return true
		}
	}
	return false
}

// unstamped cuts the time and process number before the level.
func unstamped(line string) string {
	for _, l := range []string{"FATAL", "PANIC", "ERROR", "LOG", "DETAIL", "HINT"} {
		if _, after, ok := strings.Cut(line, l+":  "); ok {
			return after
		}
	}
	return line
}
