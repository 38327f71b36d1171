package bulkload

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"headroom/engine/record"
)

// offender is a row, or several with the same key, that breaks a constraint.
type offender struct {
	key    []string // as text
	places []string // ctid
	chunks []int64  // first lines of the chunks that they came in
	lines  []int64  // of the input
}

// String names the rows: by key, place in the table, and line of the input.
func (f *offender) String() string {
	text := fmt.Sprintf("(%s) at %s", strings.Join(f.key, ", "), strings.Join(f.places, " and "))
	many := func(prefix string, lines []int64) string {
		var out []string
		for _, l := range lines {
			out = append(out, strconv.FormatInt(l, 10))
		}
		return ", " + prefix + strings.Join(out, " and ")
	}
	switch {
	case len(f.lines) == 1:
		return text + many("line ", f.lines)
	case len(f.lines) > 1:
		return text + many("lines ", f.lines)
	case len(f.chunks) > 0:
		return text + many("in what begins at line ", f.chunks)
	}
	return text
}

// searchTime is how long the input is searched for the lines of offenders.
const searchTime = 2 * time.Minute

// findLines searches the input for the offenders' keys, where it can be read
// again and the key is of plain columns. What is not found stays unnamed.
func (j *job) findLines(o Object, found []*offender) {
	if len(found) == 0 || !j.Plan.Input.Again {
		return
	}
	names := o.Columns
	if o.Kind != ForeignKey {
		names = nil
		for _, e := range o.Exprs {
			i := slices.IndexFunc(j.table().Columns, func(c Column) bool { return e == c.Name || e == ident(c.Name) })
			if i < 0 {
				return
			}
			names = append(names, j.table().Columns[i].Name)
		}
	}
	src, err := openSource(j.o)
	if err != nil {
		return
	}
	defer src.Close()
	m, _, err := fit(j.table(), src, j.o)
	if err != nil {
		return
	}
	var places []int
	for _, name := range names {
		i := slices.IndexFunc(m.columns, func(c Column) bool { return c.Name == name })
		if i < 0 {
			return
		}
		places = append(places, i)
	}
	searchLines(record.NewReader(src.body, src.opts), m, places, found)
}

func searchLines(r *record.Reader, m *mapping, places []int, found []*offender) {
	end := time.Now().Add(searchTime)
	wanted := map[string]*offender{}
	for _, f := range found {
		var parts []string
		for n, i := range places {
			parts = append(parts, canonical(m.columns[i].Base, []byte(f.key[n])))
		}
		wanted[strings.Join(parts, "\x00")] = f
	}
	var key []byte
	for n := 0; n&0xffff != 0 || time.Now().Before(end); n++ {
		rec, err := r.Next()
		var bad *record.Bad
		if errors.As(err, &bad) {
			continue
		}
		if err != nil {
			return
		}
		key = key[:0]
		for n, i := range places {
			v, err := m.value(&rec, i)
			if err != nil || v == nil {
				break
			}
			if n > 0 {
				key = append(key, 0)
			}
			key = append(key, canonical(m.columns[i].Base, v)...)
		}
		if f := wanted[string(key)]; f != nil && len(f.lines) < 5 {
			f.lines = append(f.lines, rec.Line)
		}
	}
}

// canonical brings the common ways to write a key into the server's.
func canonical(base string, v []byte) string {
	switch base {
	case "int2", "int4", "int8":
		if n, err := strconv.ParseInt(string(trim(v)), 10, 64); err == nil {
			return strconv.FormatInt(n, 10)
		}
	case "uuid":
		if wrongUUID(v) == "" {
			return string(bytes.ToLower(bytes.ReplaceAll(bytes.Trim(v, "{}"), []byte("-"), nil)))
		}
	case "bpchar":
		return strings.TrimRight(string(v), " ")
	}
	return string(v)
}
