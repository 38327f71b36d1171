package store

import (
	"context"
	"fmt"
	"regexp"
	"slices"

	"github.com/jackc/pgx/v5"

	"headroom/fail"
	"headroom/metric"
)

// matcher is conditions on labels. Equality is left to the server; regular
// expressions are Go's (RE2), run here, so that they mean the same on every
// server and cannot take exponential time.
type matcher struct {
	conds   []string
	args    []any
	local   []local
	nameSet bool // a condition on the name is among those for the server
}

type local struct {
	label string
	re    *regexp.Regexp
	not   bool
}

func compile(ms []Match) (*matcher, error) {
	m := &matcher{}
	for _, x := range ms {
		switch x.Op {
		case "=", "!=":
			m.equal(x)
		case "=~", "!~":
			_, err := regexp.Compile(x.Value) // by itself: a bracket too many must not reach our own
			var re *regexp.Regexp
			if err == nil {
				re, err = regexp.Compile("^(?s:" + x.Value + ")$")
			}
			if err != nil {
				return nil, fail.With(fmt.Errorf("condition on %s: %w", x.Label, err), fail.Usage)
			}
			m.local = append(m.local, local{x.Label, re, x.Op == "!~"})
		default:
			return nil, fail.With(fmt.Errorf("condition on %s: %q is none of = != =~ !~", x.Label, x.Op), fail.Usage)
		}
	}
	return m, nil
}

// equal has the server compare; a label that is missing is "".
func (m *matcher) equal(x Match) {
	op := map[string]string{"=": "=", "!=": "<>"}[x.Op]
	if x.Label == "__name__" {
		m.args = append(m.args, x.Value)
		m.conds = append(m.conds, fmt.Sprintf("name %s $%d", op, len(m.args)))
		m.nameSet = m.nameSet || op == "="
		return
	}
	m.args = append(m.args, x.Label, x.Value)
	m.conds = append(m.conds, fmt.Sprintf("coalesce(labels ->> $%d, '') %s $%d", len(m.args)-1, op, len(m.args)))
}

func (m *matcher) holds(s *metric.Series) bool {
	for _, l := range m.local {
		if l.re.MatchString(s.Get(l.label)) == l.not {
			return false
		}
	}
	return true
}

// names turns regular expressions on the name into a list of names.
func (m *matcher) names(ctx context.Context, c execer) error {
	var on []local
	for _, l := range m.local {
		if l.label == "__name__" {
			on = append(on, l)
		}
	}
	if len(on) == 0 || m.nameSet {
		return nil
	}
	all, err := allNames(ctx, c)
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(name string) bool {
		return slices.ContainsFunc(on, func(l local) bool { return l.re.MatchString(name) == l.not })
	})
	m.args = append(m.args, all)
	m.conds = append(m.conds, fmt.Sprintf("name = any($%d)", len(m.args)))
	return nil
}

// allNames walks the index from name to name instead of reading all series.
func allNames(ctx context.Context, c execer) ([]string, error) {
	rows, err := c.Query(ctx, `with recursive n(name) as (
		(select name from headroom.series order by name limit 1)
		union all select (select s.name from headroom.series s where s.name > n.name order by s.name limit 1) from n where n.name is not null)
		select name from n where name is not null`)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}
