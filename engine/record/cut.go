package record

import "bytes"

// style is how lines end. COPY takes that of the first line as that of all.
type style int

const (
	nl style = iota
	crnl
	cr
)

// styleOf finds the first line break that ends a record; ok is false if the
// end of b leaves it open.
func styleOf(b []byte, o Options) (st style, ok bool) {
	c := cutter{o: o}
	for i := range b {
		if (b[i] == '\n' || b[i] == '\r') && !c.open() && !c.esc {
			switch {
			case b[i] == '\n':
				return nl, true
			case i+1 == len(b):
				return cr, false
			case b[i+1] == '\n':
				return crnl, true
			}
			return cr, true
		}
		c.step(b[i])
	}
	return nl, false
}

// trim takes the line break away; why names a break of another style than the
// first line's, which COPY refuses.
func (st style) trim(raw []byte, ended bool, f Format) (_ []byte, why string) {
	if !ended {
		return raw, ""
	}
	raw = raw[:len(raw)-1]
	if f == NDJSON {
		return bytes.TrimSuffix(raw, []byte("\r")), ""
	}
	if st != crnl {
		return raw, ""
	}
	short, had := bytes.CutSuffix(raw, []byte("\r"))
	if !had || f.backslashes() && oddBackslashes(short) {
		return raw, "the line ends in LF, the first one in CR LF"
	}
	return short, ""
}

// cutter finds where records end, fed piece by piece.
type cutter struct {
	o     Options
	eol   byte
	lines int64 // line breaks since reset
	odd   bool  // CSV: inside quotes
	last  bool  // CSV with an escape of its own: the last byte was an escape
	esc   bool  // text: the last byte was a backslash that escapes the next
}

func (c *cutter) reset() { c.lines, c.odd, c.last, c.esc = 0, false, false, false }

// open says whether all that was fed ends inside quotes.
func (c *cutter) open() bool { return c.odd }

// feed returns the length of b up to and with the first line break that ends
// a record, or -1 if b holds none.
func (c *cutter) feed(b []byte) int {
	switch {
	case c.o.Format == NDJSON:
		if i := bytes.IndexByte(b, '\n'); i >= 0 {
			c.lines++
			return i + 1
		}
		return -1
	case c.o.Format.backslashes():
		return c.feedText(b)
	case c.o.Escape != c.o.Quote:
		return c.feedEscapes(b)
	}
	for at := 0; ; {
		i := bytes.IndexByte(b[at:], c.eol)
		if i < 0 {
			c.odd = c.odd != (bytes.Count(b[at:], []byte{c.o.Quote})&1 == 1)
			return -1
		}
		c.odd = c.odd != (bytes.Count(b[at:at+i], []byte{c.o.Quote})&1 == 1)
		at += i + 1
		c.lines++
		if !c.odd {
			return at
		}
	}
}

// feedText passes over line breaks that a backslash makes part of the data.
func (c *cutter) feedText(b []byte) int {
	for at := 0; ; {
		i := bytes.IndexByte(b[at:], c.eol)
		if i < 0 {
			c.esc = c.escaped(b[at:])
			return -1
		}
		escaped := c.escaped(b[at : at+i])
		c.esc = false
		at += i + 1
		c.lines++
		if !escaped {
			return at
		}
	}
}

// escaped says whether the byte behind b is escaped, where c.esc tells that of
// b's first.
func (c *cutter) escaped(b []byte) bool {
	n := 0
	for n < len(b) && b[len(b)-1-n] == '\\' {
		n++
	}
	if n == len(b) && c.esc {
		n++
	}
	return n&1 == 1
}

func (c *cutter) feedEscapes(b []byte) int {
	for i, x := range b {
		c.step(x)
		if x == c.eol {
			c.lines++
			if !c.odd {
				return i + 1
			}
		}
	}
	return -1
}

// step takes one byte into account, as COPY's own loop does.
func (c *cutter) step(x byte) {
	if c.o.Format.backslashes() {
		c.esc = x == '\\' && !c.esc
		return
	}
	if c.o.Format == NDJSON {
		return
	}
	if c.o.Escape == c.o.Quote {
		if x == c.o.Quote {
			c.odd = !c.odd
		}
		return
	}
	if c.odd && x == c.o.Escape {
		c.last = !c.last
	}
	if x == c.o.Quote && !c.last {
		c.odd = !c.odd
	}
	if x != c.o.Escape {
		c.last = false
	}
}

func oddBackslashes(b []byte) bool { return (&cutter{}).escaped(b) }

// What is said of COPY's end marker where it is not one.
const (
	markerCSV  = `a line \. ends the data for PostgreSQL before 18 and is a value since; quote it: "\."`
	markerText = `the end marker \. stands inside a line; a value \. is written \\.`
)

func isMarker(raw []byte) bool { return len(raw) == 2 && raw[0] == '\\' && raw[1] == '.' }

// hasMarker says whether a line of text holds \. with a backslash that is not
// itself escaped: COPY would end there, and drop the rest.
func hasMarker(raw []byte) bool {
	for at := 0; ; {
		i := bytes.Index(raw[at:], []byte(`\.`))
		if i < 0 {
			return false
		}
		if !oddBackslashes(raw[:at+i]) {
			return true
		}
		at += i + 2
	}
}
