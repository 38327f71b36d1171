package ingest

import (
	"bytes"
	"context"
	"errors"
	"regexp"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"headroom/engine/record"
	"headroom/engine/upsert"
)

// create makes the table, with types as given or as the first records show.
func (r *run) create(ctx context.Context, conn *pgx.Conn) error {
	schema, name, err := parseTable(r.o.Into)
	if err != nil {
		return err
	}
	guessed, err := r.guess()
	if err != nil {
		return err
	}
	t := upsert.Table{Schema: schema, Name: name}
	for i, f := range r.fields {
		c := upsert.Column{Name: f.Name, Type: f.Type, NotNull: i < len(r.o.Key) || f.From == wholeRecord}
		if c.Type == "" {
			c.Type = guessed[i]
		}
		if i < len(r.o.Key) {
			t.Key = append(t.Key, c)
		} else {
			t.Values = append(t.Values, c)
		}
	}
	return upsert.Create(ctx, conn, t, r.o.Upsert.Durability)
}

// guess reads the records at the beginning of the first input and returns a
// type for each field that fits all of them; text where none is seen.
func (r *run) guess() ([]string, error) {
	probe := &run{o: r.o, fields: r.fields}
	for i := range r.fields { // so that lists and objects come as written
		c := upsert.Column{Type: "text"}
		if i < len(r.o.Key) {
			probe.table.Key = append(probe.table.Key, c)
		} else {
			probe.table.Values = append(probe.table.Values, c)
		}
	}
	c, err := probe.converter(r.in)
	if err != nil {
		return nil, err
	}
	head := r.in.head
	if end := bytes.LastIndexByte(head, '\n'); end >= 0 {
		head = head[:end+1] // the last record may be cut off
	}
	read := record.NewReader(bytes.NewReader(head), r.in.o)
	kinds := make([]kind, len(r.fields))
	for {
		rec, err := read.Next()
		var bad *record.Bad
		if errors.As(err, &bad) {
			continue
		}
		if err != nil {
			break
		}
		row, why := c.convert(rec)
		if why != nil {
			continue
		}
		for i := range kinds {
			v := append(row.Key[:len(row.Key):len(row.Key)], row.Values...)[i]
			if v != nil {
				kinds[i] = kinds[i].with(kindOf(v))
			}
		}
	}
	var out []string
	for _, k := range kinds {
		out = append(out, k.sql())
	}
	return out, nil
}

// kind is a set of one type, or text for what fits no other.
type kind string

func (k kind) sql() string {
	if k == "" {
		return "text"
	}
	return string(k)
}

// with is the type that holds both.
func (k kind) with(other kind) kind {
	switch {
	case k == "" || k == other:
		return other
	case k == "bigint" && other == "numeric", k == "numeric" && other == "bigint":
		return "numeric"
	}
	return "text"
}

var (
	integer = regexp.MustCompile(`^-?(0|[1-9][0-9]{0,18})$`)
	decimal = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]{1,3})?$`)
	uuid    = regexp.MustCompile(`^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$`)
)

func kindOf(v []byte) kind {
	switch {
	case integer.Match(v):
		if _, err := strconv.ParseInt(string(v), 10, 64); err == nil {
			return "bigint"
		}
		return "numeric"
	case decimal.Match(v):
		return "numeric"
	case uuid.Match(v):
		return "uuid"
	case string(v) == "true" || string(v) == "false":
		return "boolean"
	case len(v) > 0 && (v[0] == '{' || v[0] == '[') && record.ValidJSON(v) == nil:
		return "jsonb"
	}
	if _, err := time.Parse(time.RFC3339Nano, string(v)); err == nil {
		return "timestamptz"
	}
	return "text"
}
