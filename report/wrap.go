package report

import (
	"strings"

	"github.com/rivo/uniseg"
)

// wide is the number of columns that text takes on a terminal.
func wide(s string) int { return uniseg.StringWidth(s) }

// wrap breaks text at blanks into lines of at most width columns. A word that
// is longer stays whole: a path or command that is cut cannot be copied.
func wrap(s string, width int) []string {
	var lines []string
	line, used := "", 0
	for _, word := range strings.Fields(s) {
		w := wide(word)
		switch {
		case used == 0:
			line, used = word, w
		case used+1+w > width:
			lines = append(lines, line)
			line, used = word, w
		default:
			line += " " + word
			used += 1 + w
		}
	}
	if line != "" || len(lines) == 0 {
		lines = append(lines, line)
	}
	return lines
}

// pack lays pieces out in lines of at most width columns, parted by "; ". A
// piece is broken only if it does not fit into a line by itself.
func pack(pieces []string, width int) []string {
	var lines []string
	line := ""
	for i, p := range pieces {
		if i < len(pieces)-1 {
			p += ";"
		}
		switch {
		case line == "":
			line = p
		case wide(line)+1+wide(p) > width:
			lines = append(lines, wrap(line, width)...)
			line = p
		default:
			line += " " + p
		}
	}
	if line != "" {
		lines = append(lines, wrap(line, width)...)
	}
	return lines
}

// pad fills text up to width columns, at the left or at the right.
func pad(s string, width int, right bool) string {
	fill := strings.Repeat(" ", max(0, width-wide(s)))
	if right {
		return fill + s
	}
	return s + fill
}
