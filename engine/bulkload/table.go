package bulkload

import (
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Table is what the catalog says of the table to load into, as seen by the
// user that loads.
type Table struct {
	OID         uint32   `json:"oid"`
	Schema      string   `json:"schema"`
	Name        string   `json:"name"`
	Kind        string   `json:"kind"` // relkind: r ordinary, p partitioned
	Persistence string   `json:"persistence"`
	Bytes       int64    `json:"bytes"` // the heap alone
	Rows        int64    `json:"rows"`  // estimate; exact where the table is small
	Dead        int64    `json:"dead"`  // rows that VACUUM would remove, as the server's statistics know them
	Partition   bool     `json:"partition"`
	Replica     string   `json:"replica_identity"` // relreplident
	RowSecurity bool     `json:"row_security"`     // in force for this user
	MayInsert   bool     `json:"may_insert"`
	MayTruncate bool     `json:"may_truncate"`
	Owned       bool     `json:"owned"` // the user has the owner's rights
	Referenced  []string `json:"referenced,omitempty"`
	Published   []string `json:"published,omitempty"`
	Columns     []Column `json:"columns"`
	Objects     []Object `json:"objects"`
	// RowTriggers says that a trigger may change, refuse or skip single rows,
	// so that the count of rows need not be the count of records.
	RowTriggers bool `json:"row_triggers"`
	// DeleteTriggers fire when rows are removed.
	DeleteTriggers bool `json:"delete_triggers"`
}

// Column is one column of a table.
type Column struct {
	Name      string `json:"name"`
	Type      string `json:"type"` // as format_type prints it
	Base      string `json:"base"` // the type's own name in pg_catalog; "" for domains and types of other schemas
	Mod       int32  `json:"mod"`  // atttypmod, -1 for none
	NotNull   bool   `json:"not_null,omitempty"`
	Generated bool   `json:"generated,omitempty"`
	Identity  string `json:"identity,omitempty"` // a always, d by default
	Default   bool   `json:"default,omitempty"`
}

// Kind says what an Object is.
type Kind string

// The kinds of object that can stand in the way of a fast load.
const (
	Index      Kind = "index"
	PrimaryKey Kind = "primary key"
	Unique     Kind = "unique"
	Exclusion  Kind = "exclusion"
	ForeignKey Kind = "foreign key"
	Trigger    Kind = "trigger"
)

// Object is an index, constraint or trigger of the table with all that is
// needed to make it again exactly as it was.
type Object struct {
	Kind  Kind   `json:"kind"`
	Name  string `json:"name"`
	OID   uint32 `json:"oid"`             // of the index, constraint or trigger when it was looked at
	Index uint32 `json:"index,omitempty"` // of a foreign key: the index that it refers to
	// Def is what pg_get_constraintdef says of a constraint, and the empty
	// string of a plain index.
	Def          string           `json:"def,omitempty"`
	IndexDef     string           `json:"index_def,omitempty"` // pg_get_indexdef, schema-qualified throughout
	Method       string           `json:"method,omitempty"`    // btree, gin …
	IsUnique     bool             `json:"is_unique,omitempty"`
	Deferrable   bool             `json:"deferrable,omitempty"`
	Deferred     bool             `json:"deferred,omitempty"`
	Valid        bool             `json:"valid"`
	Comment      string           `json:"comment,omitempty"`       // of the constraint
	IndexComment string           `json:"index_comment,omitempty"` // of the index
	Tablespace   string           `json:"tablespace,omitempty"`    // "" for the database's own
	Stats        map[string]int32 `json:"stats,omitempty"`         // statistics target by the index's column number
	Clustered    bool             `json:"clustered,omitempty"`
	ReplicaID    bool             `json:"replica_identity,omitempty"`
	Bytes        int64            `json:"bytes,omitempty"`
	// Exprs, Where and NullsEqual say what may not occur twice.
	Exprs      []string `json:"exprs,omitempty"`
	Where      string   `json:"where,omitempty"`
	NullsEqual bool     `json:"nulls_equal,omitempty"`
	// Of a foreign key: the table it refers to, as SQL, and the columns.
	Refers     string   `json:"refers,omitempty"`
	Columns    []string `json:"columns,omitempty"`
	RefColumns []string `json:"ref_columns,omitempty"`
	Self       bool     `json:"self,omitempty"` // refers to its own table
	// Enabled is tgenabled of a trigger: O, D, R or A.
	Enabled string `json:"enabled,omitempty"`
	// New is for a key that is not there before: its table is made by the load.
	New bool `json:"new,omitempty"`
	// Fixed says why it must stay; "" if it may go.
	Fixed string `json:"fixed,omitempty"`
	// Needed lists what only an unwatched table can do without, such as its
	// replica identity: it stays unless the load is offline.
	Needed string `json:"needed,omitempty"`
}

// indexed says whether an index is built for the object.
func (o Object) indexed() bool {
	return o.Kind == Index || o.Kind == PrimaryKey || o.Kind == Unique || o.Kind == Exclusion
}

// same says whether two looks at an object found the same definition.
func (o Object) same(p Object) bool { return o.differs(p) == "" }

// differs names the first property in which p is not what o was; "" if none.
func (o Object) differs(p Object) string {
	if o.New {
		return ""
	}
	for _, c := range []struct{ name, was, is string }{
		{"definition", o.Def, p.Def}, {"index", o.IndexDef, p.IndexDef}, {"comment", o.Comment, p.Comment},
		{"comment of the index", o.IndexComment, p.IndexComment}, {"tablespace", o.Tablespace, p.Tablespace},
		{"statistics targets", fmt.Sprint(o.Stats), fmt.Sprint(p.Stats)}, {"cluster mark", fmt.Sprint(o.Clustered), fmt.Sprint(p.Clustered)},
		{"replica identity", fmt.Sprint(o.ReplicaID), fmt.Sprint(p.ReplicaID)}, {"validity", fmt.Sprint(o.Valid), fmt.Sprint(p.Valid)},
		{"state", o.Enabled, p.Enabled},
	} {
		if c.was != c.is {
			return fmt.Sprintf("%s was %q and is %q", c.name, c.was, c.is)
		}
	}
	return ""
}

// String names the object as a person would.
func (o Object) String() string {
	if o.Kind == Index && o.Method != "" {
		return o.Method + " index " + o.Name
	}
	return string(o.Kind) + " " + o.Name
}

// ident is the table's name as SQL.
func (t *Table) ident() string { return ident(t.Schema, t.Name) }

// String is the table's name as SQL: quoted, with its schema.
func (t *Table) String() string { return t.ident() }

// object finds an object by kind and name; nil if it is not there.
func (t *Table) object(kind Kind, name string) *Object {
	i := slices.IndexFunc(t.Objects, func(o Object) bool { return o.Kind == kind && o.Name == name })
	if i < 0 {
		return nil
	}
	return &t.Objects[i]
}

// column finds a column by its name; where there is none, by its name in
// another case, if only one fits.
func (t *Table) column(name string) *Column {
	var near *Column
	n := 0
	for i, c := range t.Columns {
		if c.Name == name {
			return &t.Columns[i]
		}
		if strings.EqualFold(c.Name, name) {
			near, n = &t.Columns[i], n+1
		}
	}
	if n == 1 {
		return near
	}
	return nil
}

// names lists the table's columns.
func (t *Table) names() []string {
	var out []string
	for _, c := range t.Columns {
		out = append(out, c.Name)
	}
	return out
}

// ident quotes a name, or a name with its schema.
func ident(parts ...string) string { return pgx.Identifier(parts).Sanitize() }

// idents quotes a list of names.
func idents(names []string) string {
	var out []string
	for _, n := range names {
		out = append(out, ident(n))
	}
	return strings.Join(out, ", ")
}
