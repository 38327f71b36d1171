package bulkload

import (
	"fmt"
	"maps"
	"slices"

	"headroom/host"
)

// dropSQL is the statement that takes the object away; a trigger only sleeps.
func (o Object) dropSQL(t *Table) string {
	switch o.Kind {
	case Index:
		return "drop index " + ident(t.Schema, o.Name)
	case Trigger:
		return fmt.Sprintf("alter table %s disable trigger %s", t.ident(), ident(o.Name))
	}
	return fmt.Sprintf("alter table %s drop constraint %s", t.ident(), ident(o.Name))
}

// buildSQL is the statement that builds the object's index, to be run with the
// tablespace as default_tablespace; "" if it comes with the constraint.
func (o Object) buildSQL() string {
	switch o.Kind {
	case Index, PrimaryKey, Unique:
		return o.IndexDef
	}
	return ""
}

// constraintSQL is the statement that makes a constraint, after its index has
// been built; of a foreign key without looking at the rows.
func (o Object) constraintSQL(t *Table) string {
	add := fmt.Sprintf("alter table %s add constraint %s ", t.ident(), ident(o.Name))
	switch o.Kind {
	case PrimaryKey, Unique:
		word := map[Kind]string{PrimaryKey: "primary key", Unique: "unique"}[o.Kind]
		sql := add + word + " using index " + ident(o.Name)
		if o.Deferrable {
			sql += " deferrable"
		}
		if o.Deferred {
			sql += " initially deferred"
		}
		return sql
	case Exclusion:
		return add + o.Def
	case ForeignKey:
		if o.Valid {
			return add + o.Def + " not valid"
		}
		return add + o.Def
	}
	return ""
}

// validateSQL is the statement that checks all rows against a foreign key.
func (o Object) validateSQL(t *Table) string {
	if o.Kind != ForeignKey || !o.Valid {
		return ""
	}
	return fmt.Sprintf("alter table %s validate constraint %s", t.ident(), ident(o.Name))
}

// detailSQL is what else belongs to the object: comments, statistics targets,
// the marks on an index, and the state of a trigger.
func (o Object) detailSQL(t *Table) []string {
	var out []string
	index := ident(t.Schema, o.Name)
	if o.IndexComment != "" {
		out = append(out, fmt.Sprintf("comment on index %s is %s", index, host.Literal(o.IndexComment)))
	}
	if o.Comment != "" {
		out = append(out, fmt.Sprintf("comment on constraint %s on %s is %s", ident(o.Name), t.ident(), host.Literal(o.Comment)))
	}
	for _, n := range slices.Sorted(maps.Keys(o.Stats)) {
		out = append(out, fmt.Sprintf("alter index %s alter column %s set statistics %d", index, n, o.Stats[n]))
	}
	if o.Clustered {
		out = append(out, fmt.Sprintf("alter table %s cluster on %s", t.ident(), ident(o.Name)))
	}
	if o.ReplicaID {
		out = append(out, fmt.Sprintf("alter table %s replica identity using index %s", t.ident(), ident(o.Name)))
	}
	if o.Kind == Trigger {
		word := map[string]string{"O": "enable", "A": "enable always", "R": "enable replica", "D": "disable"}[o.Enabled]
		out = append(out, fmt.Sprintf("alter table %s %s trigger %s", t.ident(), word, ident(o.Name)))
	}
	return out
}

// restoreSQL lists all statements that make the object again, in their order.
func (o Object) restoreSQL(t *Table) []string {
	var out []string
	if sql := o.buildSQL(); sql != "" {
		if o.Tablespace != "" {
			out = append(out, "set default_tablespace = "+ident(o.Tablespace))
		}
		out = append(out, sql)
		if o.Tablespace != "" {
			out = append(out, "reset default_tablespace")
		}
	}
	for _, sql := range append([]string{o.constraintSQL(t)}, append(o.detailSQL(t), o.validateSQL(t))...) {
		if sql != "" {
			out = append(out, sql)
		}
	}
	return out
}

// inOrder sorts for making again: what others rest on first. Dropping goes the
// other way round.
func inOrder(objects []Object) []Object {
	rank := map[Kind]int{PrimaryKey: 0, Unique: 1, Exclusion: 2, Index: 3, ForeignKey: 4, Trigger: 5}
	return slices.SortedStableFunc(slices.Values(objects), func(a, b Object) int { return rank[a.Kind] - rank[b.Kind] })
}
