package report

import (
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/term"
)

// Terminal says how text may look where it goes.
type Terminal struct {
	Live  bool // a person watches: lines may be drawn over
	Color bool
	UTF8  bool // the locale can show more than ASCII
	Width int  // columns
}

// Widths that text is wrapped at.
const (
	defaultWidth = 80
	minWidth     = 40
	maxWidth     = 120 // longer lines are hard to read
)

// TerminalOf looks at a stream and at the environment (os.Getenv): colour only
// on a terminal, never with NO_COLOR or TERM=dumb, always with a
// CLICOLOR_FORCE other than 0; the width of the terminal, or COLUMNS; glyphs
// only where LC_ALL, LC_CTYPE or LANG (the first that is set) says UTF-8.
func TerminalOf(w io.Writer, env func(string) string) Terminal {
	t := Terminal{Width: defaultWidth}
	file, isFile := w.(*os.File)
	dumb := env("TERM") == "dumb"
	if isFile && term.IsTerminal(int(file.Fd())) {
		t.Live = !dumb
		if cols, _, err := term.GetSize(int(file.Fd())); err == nil && cols > 0 {
			t.Width = cols
		}
	}
	if cols, err := strconv.Atoi(env("COLUMNS")); err == nil && cols > 0 {
		t.Width = cols
	}
	t.Width = min(max(t.Width, minWidth), maxWidth)
	forced := env("CLICOLOR_FORCE") != "" && env("CLICOLOR_FORCE") != "0"
	t.Color = (t.Live || forced) && env("NO_COLOR") == "" && !dumb
	t.UTF8 = speaksUTF8(env)
	return t
}

func speaksUTF8(env func(string) string) bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := env(name); v != "" {
			v = strings.ToLower(v)
			return strings.Contains(v, "utf-8") || strings.Contains(v, "utf8")
		}
	}
	return false
}
