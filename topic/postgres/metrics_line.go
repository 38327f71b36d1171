package postgres

import (
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"headroom/metric"
)

// line is where each row of a statement is scanned to. Columns are found by
// name: those of double precision are numbers, all others labels.
type line struct {
	to     []any
	values []value
}

// value is one number of a line.
type value struct {
	def    *metric.Def
	number *pgtype.Float8
	labels []*pgtype.Text
	words  []string // of the labels, reused from row to row
}

func newLine(rows pgx.Rows, columns []column) *line {
	l := &line{}
	numbers, texts := map[string]*pgtype.Float8{}, map[string]*pgtype.Text{}
	for _, c := range rows.FieldDescriptions() {
		if c.DataTypeOID == pgtype.Float8OID {
			n := &pgtype.Float8{}
			numbers[c.Name], l.to = n, append(l.to, n)
			continue
		}
		t := &pgtype.Text{}
		texts[c.Name], l.to = t, append(l.to, t)
	}
	for _, f := range columns {
		n := numbers[f.Name]
		if n == nil {
			continue
		}
		v := value{def: f.Def, number: n, words: make([]string, len(f.Labels))}
		for _, name := range f.Labels {
			v.labels = append(v.labels, texts[name])
		}
		l.values = append(l.values, v)
	}
	return l
}

// add makes samples of the row that was scanned. NULL is no sample.
func (l *line) add(out *metric.Out) {
	for _, v := range l.values {
		if !v.number.Valid {
			continue
		}
		for i, t := range v.labels {
			v.words[i] = t.String
		}
		out.Add(v.def, v.number.Float64, v.words...)
	}
}
