package ingest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"headroom/engine/record"
	"headroom/engine/upsert"
	"headroom/fail"
)

// columns settles which columns are written, from the flags and the first
// input: for CSV without --columns and --doc, all of the input's.
func (r *run) columns() error {
	r.fields = slices.Clone(r.o.Key)
	if len(r.o.Columns) == 0 && r.in.o.Format != record.NDJSON && r.o.Doc == "doc" {
		for _, n := range r.in.names {
			if !slices.ContainsFunc(r.o.Key, func(k Field) bool { return k.source() == n || k.Name == n }) {
				r.o.Columns = append(r.o.Columns, Field{Name: n})
			}
		}
		if len(r.o.Columns) == 0 && len(r.in.names) > 0 {
			return nil // nothing but the key
		}
	}
	if len(r.o.Columns) == 0 {
		r.fields = append(r.fields, Field{Name: r.o.Doc, Type: "jsonb", From: wholeRecord})
		return nil
	}
	r.fields = append(r.fields, r.o.Columns...)
	return nil
}

// wholeRecord is the source of the document's column; no path is written so.
const wholeRecord = "\x00"

func (f Field) source() string {
	if f.From != "" {
		return f.From
	}
	return f.Name
}

// converter makes rows of one input's records. A row is valid until the next.
type converter struct {
	key   int // how many of sources are the key
	src   []source
	names []string
	json  bool
	row   upsert.Row
	doc   []byte
}

type source struct {
	name  string
	whole bool
	path  record.Path
	raw   bool // the column holds JSON: values as written
	field int  // of CSV and text
}

func (r *run) converter(in *input) (*converter, error) {
	c := &converter{key: len(r.o.Key), names: in.names, json: in.o.Format == record.NDJSON}
	types := slices.Concat(r.table.Key, r.table.Values)
	for i, f := range r.fields {
		s := source{name: f.Name, whole: f.From == wholeRecord, raw: types[i].Type == "jsonb" || types[i].Type == "json"}
		switch {
		case s.whole:
		case !c.json:
			if s.field = slices.Index(in.names, f.source()); s.field < 0 && len(in.names) > 0 {
				return nil, fail.With(fail.Hint(fmt.Errorf("read input %s: it has no column %q", in.name, f.source()), "it has %q; another name is given with =: --key 'id=user_id'", in.names), fail.Usage)
			}
		case f.From == "":
			s.path = record.PathOf(f.Name)
		default:
			var err error
			if s.path, err = record.ParsePath(f.From); err != nil {
				return nil, err
			}
		}
		c.src = append(c.src, s)
	}
	c.row.Key = make([][]byte, c.key)
	c.row.Values = make([][]byte, len(c.src)-c.key)
	return c, nil
}

// convert makes a row of a record, or says why it is bad.
func (c *converter) convert(rec record.Rec) (upsert.Row, *record.Bad) {
	var column, why string
	if c.json {
		column, why = c.fromJSON(rec.Raw)
	} else {
		column, why = c.fromFields(rec.Fields)
	}
	if why != "" {
		return upsert.Row{}, &record.Bad{Line: rec.Line, Column: column, Reason: why, Raw: rec.Raw, End: rec.End}
	}
	c.row.Line = rec.Line
	return c.row, nil
}

func (c *converter) set(i int, v []byte) {
	if i < c.key {
		c.row.Key[i] = v
	} else {
		c.row.Values[i-c.key] = v
	}
}

func (c *converter) fromJSON(doc []byte) (column, why string) {
	if err := record.ValidJSON(doc); err != nil {
		return "", err.Error()
	}
	doc = bytes.Trim(doc, " \t\r")
	if doc[0] != '{' {
		return "", "not a JSON object"
	}
	for i, s := range c.src {
		if s.whole {
			c.set(i, doc)
			continue
		}
		get := s.path.Get
		if s.raw {
			get = s.path.Raw
		}
		v, kind, err := get(doc)
		if err != nil {
			return s.name, err.Error()
		}
		if i < c.key {
			switch kind {
			case record.Missing:
				return s.name, "key missing"
			case record.Null, record.Object, record.Array:
				return s.name, fmt.Sprintf("the key is %s", kind)
			}
		}
		c.set(i, v)
	}
	return "", ""
}

func (c *converter) fromFields(fields [][]byte) (column, why string) {
	if len(fields) != len(c.names) {
		return "", fmt.Sprintf("%d fields, not %d", len(fields), len(c.names))
	}
	for i, f := range fields {
		if !utf8.Valid(f) {
			return c.names[i], "not valid UTF-8"
		}
		if bytes.IndexByte(f, 0) >= 0 {
			return c.names[i], "NUL in text"
		}
	}
	for i, s := range c.src {
		if s.whole {
			c.doc = appendObject(c.doc[:0], c.names, fields)
			c.set(i, c.doc)
			continue
		}
		v := fields[s.field]
		if i < c.key && v == nil {
			return s.name, "the key is null"
		}
		c.set(i, v)
	}
	return "", ""
}

// appendObject writes a record of CSV as a JSON object of texts and nulls.
func appendObject(b []byte, names []string, fields [][]byte) []byte {
	b = append(b, '{')
	for i, f := range fields {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendString(b, []byte(names[i])), ':')
		if f == nil {
			b = append(b, "null"...)
		} else {
			b = appendString(b, f)
		}
	}
	return append(b, '}')
}

func appendString(b, s []byte) []byte {
	b = append(b, '"')
	for _, c := range s {
		switch {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < 0x20:
			b = fmt.Appendf(b, `\u%04x`, c)
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}

// errStopped ends the reading after an interrupt.
var errStopped = errors.New("stopped")
