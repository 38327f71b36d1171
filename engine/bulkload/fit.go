package bulkload

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"headroom/engine/record"
	"headroom/fail"
)

// mapping says what of each record goes into which column.
type mapping struct {
	columns []Column      // that are filled, in the order in which they are sent
	fields  []int         // which of a record's fields; nil: all, as they are
	width   int           // fields of a record, where fields is not nil
	paths   []record.Path // of documents; the zero Path is the whole document
	whole   []bool        // of documents: this column takes all of it
	left    []string      // of documents: members of the first ones that no column takes
}

// raw says whether records can be sent as they were written.
func (m *mapping) raw() bool { return m.fields == nil && m.paths == nil }

func (m *mapping) names() []string {
	var out []string
	for _, c := range m.columns {
		out = append(out, c.Name)
	}
	return out
}

// fit finds out which columns the input fills.
func fit(t *Table, src *source, o *Options) (*mapping, sample, error) {
	if src.opts.Format == record.NDJSON {
		sm, err := src.sample()
		if err != nil {
			return nil, sm, err
		}
		m, err := fitDocuments(t, sm, o)
		return m, sm, err
	}
	if o.Header == nil {
		src.opts.Header = seesHeader(t, src)
	}
	src.Header = src.opts.Header
	sm, err := src.sample()
	if err != nil {
		return nil, sm, err
	}
	var m *mapping
	switch {
	case len(o.Columns) > 0:
		m, err = fitNames(t, o.Columns, "--columns")
	case sm.names != nil:
		m, err = fitNames(t, sm.names, "the header")
	default:
		m, err = fitAll(t, sm)
	}
	return m, sm, err
}

// seesHeader says whether the first record holds names of the table's columns.
// A first record that only might be a header is data: what is refused can be
// seen, what is passed over cannot.
func seesHeader(t *Table, src *source) bool {
	o := src.opts
	o.Header = false
	rec, err := record.NewReader(bytes.NewReader(src.head), o).Next()
	if err != nil || len(rec.Fields) == 0 {
		return false
	}
	known := 0
	for _, f := range rec.Fields {
		if f != nil && t.column(string(f)) != nil {
			known++
		}
	}
	return known == len(rec.Fields) || src.opts.Header && known > 0
}

// fitNames is for columns that are listed.
func fitNames(t *Table, names []string, where string) (*mapping, error) {
	m := &mapping{}
	left := false
	for i, name := range names {
		if name == "-" && where == "--columns" {
			left = true
			continue
		}
		c := t.column(name)
		if c == nil {
			return nil, fail.With(fail.Hint(fmt.Errorf("read %s: table %s has no column %q", where, t, name),
				"it has: %s; name the input's columns with --columns, - for one to leave out", strings.Join(t.names(), ", ")), fail.Usage)
		}
		if slices.ContainsFunc(m.columns, func(have Column) bool { return have.Name == c.Name }) {
			return nil, fail.With(fmt.Errorf("read %s: column %s is named twice", where, c.Name), fail.Usage)
		}
		if c.Generated { // the server computes it
			left = true
			continue
		}
		m.columns = append(m.columns, *c)
		m.fields = append(m.fields, i)
	}
	m.width = len(names)
	if !left {
		m.fields = nil
	}
	if len(m.columns) == 0 {
		return nil, fail.With(fmt.Errorf("read %s: no column is left to load", where), fail.Usage)
	}
	return m, nil
}

// fitAll is for records that come without names: all columns but generated
// ones; where the input has fewer fields, also without identity columns.
func fitAll(t *Table, sm sample) (*mapping, error) {
	all, plain := &mapping{}, &mapping{}
	for _, c := range t.Columns {
		if c.Generated {
			continue
		}
		all.columns = append(all.columns, c)
		if c.Identity == "" {
			plain.columns = append(plain.columns, c)
		}
	}
	widths := map[int]int{}
	for _, r := range sm.records {
		widths[len(r)]++
	}
	switch {
	case len(sm.records) == 0 || widths[len(all.columns)] > 0:
		return all, nil
	case widths[len(plain.columns)] > 0:
		return plain, nil
	}
	return nil, fail.With(fail.Hint(fmt.Errorf("load into %s: the input has %d fields, the table takes %d", t, len(sm.records[0]), len(all.columns)),
		"name the input's columns in their order with --columns, or the delimiter with --delimiter"), fail.Usage)
}

// fitDocuments maps documents: as asked, else the members of the first ones
// that are named like columns.
func fitDocuments(t *Table, sm sample, o *Options) (*mapping, error) {
	m := &mapping{paths: []record.Path{}}
	add := func(name string, path record.Path, whole bool) error {
		c := t.column(name)
		if c == nil {
			return fail.With(fail.Hint(fmt.Errorf("read --columns: table %s has no column %q", t, name), "it has: %s", strings.Join(t.names(), ", ")), fail.Usage)
		}
		m.columns, m.paths, m.whole = append(m.columns, *c), append(m.paths, path), append(m.whole, whole)
		return nil
	}
	for _, spec := range o.Columns {
		name, text, given := strings.Cut(spec, "=")
		path := record.PathOf(name)
		var err error
		if given && text != "." {
			path, err = record.ParsePath(text)
		}
		if err = errors.Join(err, add(name, path, given && text == ".")); err != nil {
			return nil, err
		}
	}
	if len(o.Columns) == 0 {
		for _, c := range t.Columns {
			path := record.PathOf(c.Name)
			named := slices.ContainsFunc(sm.raw, func(doc []byte) bool {
				_, kind, err := path.Get(doc)
				return err == nil && kind != record.Missing
			})
			if named && !c.Generated {
				if err := add(c.Name, path, false); err != nil {
					return nil, err
				}
			}
		}
		names, _, _ := documentNames(sm, o) // none: said below
		for _, name := range names {
			if !slices.Contains(m.names(), name) {
				m.left = append(m.left, name)
			}
		}
	}
	if len(m.columns) == 0 {
		return nil, fail.With(fail.Hint(fmt.Errorf("load into %s: no member of the first documents is named like a column", t),
			"say what goes where: --columns id=meta.id,doc=. (. is the whole document); the table has: %s", strings.Join(t.names(), ", ")), fail.Usage)
	}
	return m, nil
}

// encoder makes COPY's text format of records that are not sent as they are.
type encoder struct {
	m   *mapping
	out []byte
}

// row appends one record; why says what keeps it from being one, and column
// where.
func (e *encoder) row(rec *record.Rec) (column, why string) {
	mark := len(e.out)
	for i := range e.m.columns {
		if i > 0 {
			e.out = append(e.out, '\t')
		}
		value, err := e.m.value(rec, i)
		if err != nil {
			e.out = e.out[:mark]
			return e.m.columns[i].Name, err.Error()
		}
		e.out = appendText(e.out, value)
	}
	e.out = append(e.out, '\n')
	return "", ""
}

// value is what of a record goes into the i-th column; nil is NULL.
func (m *mapping) value(rec *record.Rec, i int) ([]byte, error) {
	if m.paths == nil {
		n := i
		if m.fields != nil {
			n = m.fields[i]
		}
		if n >= len(rec.Fields) {
			return nil, fmt.Errorf("%d fields where the input should have %d", len(rec.Fields), m.width)
		}
		return rec.Fields[n], nil
	}
	if m.whole[i] {
		return bytes.TrimSpace(rec.Raw), nil
	}
	text, kind, err := m.paths[i].Get(rec.Raw)
	if err != nil {
		return nil, fmt.Errorf("not JSON: %w", err)
	}
	if kind == record.Missing || kind == record.Null {
		return nil, nil
	}
	if kind == record.String && (m.columns[i].Base == "json" || m.columns[i].Base == "jsonb") {
		return appendJSON(nil, text), nil
	}
	if text == nil {
		text = []byte{}
	}
	return text, nil
}

// appendJSON writes a text as a JSON string.
func appendJSON(out, text []byte) []byte {
	out = append(out, '"')
	for _, c := range text {
		switch {
		case c == '"' || c == '\\':
			out = append(out, '\\', c)
		case c < ' ':
			out = fmt.Appendf(out, `\u%04x`, c)
		default:
			out = append(out, c)
		}
	}
	return append(out, '"')
}

// appendText writes a value of COPY's text format.
func appendText(out, v []byte) []byte {
	if v == nil {
		return append(out, '\\', 'N')
	}
	for _, c := range v {
		switch c {
		case '\\':
			out = append(out, '\\', '\\')
		case '\n':
			out = append(out, '\\', 'n')
		case '\r':
			out = append(out, '\\', 'r')
		case '\t':
			out = append(out, '\\', 't')
		default:
			out = append(out, c)
		}
	}
	return out
}

// fits judges the sample, before anything is touched: input of which most
// does not fit is the wrong input, or read in the wrong way.
func fits(m *mapping, sm sample, c *checker, src *source) error {
	var first *record.Bad
	for i := range sm.raw {
		rec := record.Rec{Line: sm.lines[i], Raw: sm.raw[i], Fields: sm.records[i]}
		if column, why := judge(m, c, &rec, false); why != "" {
			src.Bad++
			if first == nil {
				first = &record.Bad{Line: rec.Line, Column: column, Reason: why}
			}
		}
	}
	if src.Sampled >= 10 && src.Bad*2 > src.Sampled {
		return fail.Hint(fmt.Errorf("load: %d of the first %d records do not fit the table; the first: %w", src.Bad, src.Sampled, first),
			"is it the right table, format, delimiter, text for NULL? see how it is read with --plan")
	}
	return nil
}

// judge says why a record would surely be refused, and in which column.
func judge(m *mapping, c *checker, rec *record.Rec, clean bool) (column, why string) {
	if m.fields == nil && m.paths == nil {
		return c.record(rec.Fields, clean)
	}
	if m.fields != nil && len(rec.Fields) != m.width {
		return "", fmt.Sprintf("%d fields where the input should have %d", len(rec.Fields), m.width)
	}
	for i := range m.columns {
		v, err := m.value(rec, i)
		if err != nil {
			return m.columns[i].Name, err.Error()
		}
		if why := c.value(i, v, clean); why != "" {
			return m.columns[i].Name, why
		}
	}
	return "", ""
}
