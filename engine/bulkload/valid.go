package bulkload

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"

	"headroom/engine/record"
)

// checker says of single values that the server would refuse them. It speaks
// up only where it is sure: what is doubtful goes to the server, which judges.
type checker struct {
	columns []Column // in the order of the fields
	utf8    bool     // input and database are UTF-8
	// filled says that a trigger may fill what is NULL.
	filled bool
	tests  []func(v []byte, mod int32) string // by column; made at first use
}

// ready finds the test of each column.
func (c *checker) ready() {
	for _, col := range c.columns {
		test := checks[col.Base]
		if col.Mod >= 0 && !c.utf8 { // characters of other encodings are not counted here
			test = nil
		}
		c.tests = append(c.tests, test)
	}
}

// clean says whether records of this text need no look at their bytes: all
// are UTF-8 without NUL, and none are written as escapes.
func (c *checker) clean(data []byte, escapes bool) bool {
	return c.utf8 && utf8.Valid(data) && bytes.IndexByte(data, 0) < 0 && !(escapes && bytes.IndexByte(data, '\\') >= 0)
}

// record returns the column and the reason why a record is bad; two empty
// strings if it may be good.
// With clean the bytes of the values are known to be fine.
func (c *checker) record(fields [][]byte, clean bool) (column, reason string) {
	if n := len(fields); n != len(c.columns) {
		if n < len(c.columns) {
			return c.columns[n].Name, fmt.Sprintf("%d fields where the table takes %d: nothing for this column", n, len(c.columns))
		}
		return "", fmt.Sprintf("%d fields where the table takes %d", n, len(c.columns))
	}
	for i, v := range fields {
		if why := c.value(i, v, clean); why != "" {
			return c.columns[i].Name, why
		}
	}
	return "", ""
}

func (c *checker) value(i int, v []byte, clean bool) string {
	if v == nil {
		if col := &c.columns[i]; col.NotNull && !c.filled && col.Base != "" {
			return "NULL in a column that is NOT NULL"
		}
		return ""
	}
	if c.utf8 && !clean {
		if at := badText(v); at >= 0 {
			return fmt.Sprintf("invalid text at byte %d: not UTF-8, or a NUL", at)
		}
	}
	if test := c.tests[i]; test != nil {
		return test(v, c.columns[i].Mod)
	}
	return ""
}

// badText returns the position of the first byte that no text of an UTF-8
// database may hold, or -1.
func badText(v []byte) int {
	if utf8.Valid(v) {
		return bytes.IndexByte(v, 0)
	}
	for i := 0; i < len(v); {
		r, n := utf8.DecodeRune(v[i:])
		if v[i] == 0 || r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return -1
}

// checks are by the type's name in pg_catalog. Each returns why the server
// would surely refuse the value, or "".
var checks = map[string]func(v []byte, mod int32) string{
	"int2":        func(v []byte, _ int32) string { return wrongInt(v, math.MinInt16, math.MaxInt16, "smallint") },
	"int4":        func(v []byte, _ int32) string { return wrongInt(v, math.MinInt32, math.MaxInt32, "integer") },
	"int8":        func(v []byte, _ int32) string { return wrongInt(v, math.MinInt64, math.MaxInt64, "bigint") },
	"float4":      func(v []byte, _ int32) string { return wrongNumber(v, "real") },
	"float8":      func(v []byte, _ int32) string { return wrongNumber(v, "double precision") },
	"numeric":     wrongNumeric,
	"bool":        func(v []byte, _ int32) string { return wrongBool(v) },
	"uuid":        func(v []byte, _ int32) string { return wrongUUID(v) },
	"date":        func(v []byte, _ int32) string { return wrongDate(v, "date") },
	"timestamp":   func(v []byte, _ int32) string { return wrongDate(v, "timestamp") },
	"timestamptz": func(v []byte, _ int32) string { return wrongDate(v, "timestamp with time zone") },
	"varchar":     wrongLength,
	"bpchar":      wrongLength,
	"jsonb": func(v []byte, _ int32) string {
		if err := record.ValidJSON(v); err != nil {
			return "no JSON: " + err.Error()
		}
		return ""
	},
}

// trim takes blanks away as the server does.
func trim(v []byte) []byte {
	for len(v) > 0 && blank(v[0]) {
		v = v[1:]
	}
	for len(v) > 0 && blank(v[len(v)-1]) {
		v = v[:len(v)-1]
	}
	return v
}

func blank(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' }

// shown is a value as a reason names it: short and on one line.
func shown(v []byte) string {
	if len(v) > 60 {
		v = append(bytes.Clone(v[:57]), "..."...)
	}
	return strconv.Quote(string(v))
}

func wrongInt(v []byte, low, high int64, name string) string {
	t := trim(v)
	if len(t) == 0 {
		return "an empty text is no " + name
	}
	for i, c := range t {
		if c >= '0' && c <= '9' || i == 0 && (c == '-' || c == '+') && len(t) > 1 {
			continue
		}
		if newNumber(t) {
			return ""
		}
		return shown(v) + " is no " + name
	}
	n, err := strconv.ParseInt(string(t), 10, 64)
	if err != nil || n < low || n > high {
		return shown(v) + " is out of range for " + name
	}
	return ""
}

// newNumber says whether a text may be one of the forms that servers take
// since version 16: 0x1f, 0o17, 0b11, 1_000.
func newNumber(t []byte) bool {
	t = bytes.TrimLeft(t, "+-")
	return bytes.IndexByte(t, '_') >= 0 || len(t) > 2 && t[0] == '0' && bytes.IndexByte([]byte("xXoObB"), t[1]) >= 0
}

func hasDigit(v []byte) bool {
	for _, c := range v {
		if c >= '0' && c <= '9' {
			return true
		}
	}
	return false
}

// plainNumber says whether a text is digits with at most a sign and a point.
func plainNumber(t []byte) bool {
	points, digits := 0, 0
	for i, c := range t {
		switch {
		case c >= '0' && c <= '9':
			digits++
		case c == '.':
			points++
		case i > 0 || c != '-' && c != '+':
			return false
		}
	}
	return digits > 0 && points <= 1
}

func wrongNumber(v []byte, name string) string {
	t := trim(v)
	if len(t) == 0 {
		return "an empty text is no " + name
	}
	if plainNumber(t) {
		return ""
	}
	lower := bytes.ToLower(t)
	if bytes.Contains(lower, []byte("nan")) || bytes.Contains(lower, []byte("inf")) {
		return ""
	}
	if !hasDigit(t) {
		return shown(v) + " is no " + name
	}
	for _, c := range lower {
		if (c < '0' || c > '9') && bytes.IndexByte([]byte("+-._abcdefxop"), c) < 0 && c < 0x80 && c != ' ' {
			return shown(v) + " is no " + name
		}
	}
	return ""
}

// wrongNumeric also counts the digits before the point.
func wrongNumeric(v []byte, mod int32) string {
	if why := wrongNumber(v, "numeric"); why != "" || mod < 4 {
		return why
	}
	precision, scale := int(mod-4)>>16, int(mod-4)&0x7ff
	t := bytes.TrimLeft(trim(v), "+-")
	whole, frac, _ := bytes.Cut(t, []byte("."))
	whole = bytes.TrimLeft(whole, "0")
	if number(frac) < 0 && len(frac) > 0 || scale > precision { // another form, or a scale that is negative or large
		return ""
	}
	for _, c := range whole {
		if c < '0' || c > '9' {
			return ""
		}
	}
	if len(whole) > precision-scale {
		return fmt.Sprintf("%s is out of range for numeric(%d,%d)", shown(v), precision, scale)
	}
	return ""
}

func wrongBool(v []byte) string {
	t := bytes.ToLower(trim(v))
	for _, word := range []string{"true", "false", "yes", "no"} {
		if len(t) > 0 && len(t) <= len(word) && string(t) == word[:len(t)] {
			return ""
		}
	}
	switch string(t) {
	case "1", "0", "on", "of", "off":
		return ""
	}
	return shown(v) + " is no boolean"
}

func wrongUUID(v []byte) string {
	digits := 0
	for _, c := range v {
		switch {
		case c >= '0' && c <= '9', c >= 'a' && c <= 'f', c >= 'A' && c <= 'F':
			digits++
		case c == '-', c == '{', c == '}':
		default:
			return shown(v) + " is no uuid"
		}
	}
	if digits != 32 {
		return fmt.Sprintf("%s is no uuid: %d hexadecimal digits, not 32", shown(v), digits)
	}
	return ""
}

// dateWords are what a date without a digit can be.
var dateWords = [][]byte{[]byte("now"), []byte("today"), []byte("tomorrow"), []byte("yesterday"), []byte("epoch"), []byte("inf"), []byte("allballs")}

func wrongDate(v []byte, name string) string {
	t := trim(v)
	if len(t) == 0 {
		return "an empty text is no " + name
	}
	if !hasDigit(t) {
		lower := bytes.ToLower(t)
		for _, w := range dateWords {
			if bytes.Contains(lower, w) {
				return ""
			}
		}
		return shown(v) + " is no " + name
	}
	if len(t) < 10 || t[4] != '-' || t[7] != '-' || len(t) > 10 && t[10] != ' ' && t[10] != 'T' {
		return ""
	}
	if len(t) > 10 && (bytes.IndexByte(t[10:], 'B') >= 0 || bytes.IndexByte(t[10:], 'b') >= 0) { // before Christ, leap years are others
		return ""
	}
	year, month, day := number(t[:4]), number(t[5:7]), number(t[8:10])
	if year <= 0 || month < 0 || day < 0 {
		return ""
	}
	if month < 1 || month > 12 || day < 1 || day > daysIn(year, month) {
		return shown(v) + " is out of range for " + name
	}
	return ""
}

// number reads plain digits, or returns -1.
func number(v []byte) int {
	n := 0
	for _, c := range v {
		if c < '0' || c > '9' {
			return -1
		}
		n = 10*n + int(c-'0')
	}
	return n
}

func daysIn(year, month int) int {
	switch month {
	case 4, 6, 9, 11:
		return 30
	case 2:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	}
	return 31
}

// wrongLength is for varchar(n) and char(n): trailing blanks may be cut.
func wrongLength(v []byte, mod int32) string {
	limit := int(mod) - 4
	if mod < 4 || len(v) <= limit || !utf8.Valid(v) {
		return ""
	}
	if n := utf8.RuneCount(bytes.TrimRight(v, " ")); n > limit {
		return fmt.Sprintf("%d characters where at most %d fit", n, limit)
	}
	return ""
}
