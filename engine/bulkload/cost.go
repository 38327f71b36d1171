package bulkload

import (
	"math"
	"slices"
)

// Model holds what the planner's estimates rest on: seconds per row on one
// connection, measured by bench/bulkload with the people table on PostgreSQL
// 15. They decide between ways and give a person an idea; they promise nothing.
type Model struct {
	CopyRow  float64            `json:"copy_row"`  // a row of any width
	CopyByte float64            `json:"copy_byte"` // and each of its bytes
	Insert   map[string]float64 `json:"insert"`    // one more entry in a standing index, by access method
	Page     float64            `json:"page"`      // and a page of it that goes into the log whole: the first time after a checkpoint
	Build    map[string]float64 `json:"build"`     // its part of building the index anew
	CheckRow float64            `json:"check_row"` // a foreign key looked up row by row
	Validate float64            `json:"validate"`  // and for all rows at once
	Vacuum   float64            `json:"vacuum"`    // VACUUM ANALYZE, by row
	Shared   float64            `json:"shared"`    // what each further connection adds, of one's speed
	Fixed    float64            `json:"fixed"`     // seconds that dropping and making again costs at least
	Start    float64            `json:"start"`     // seconds that any load costs: the journal, connections, first chunks
}

// Measured is the model in use.
func Measured() Model {
	return Model{
		CopyRow: 0.35e-6, CopyByte: 7e-9,
		Insert:   map[string]float64{"btree": 2.2e-6, "hash": 2e-6, "gin": 8e-6, "gist": 15e-6, "spgist": 8e-6, "brin": 0.1e-6},
		Build:    map[string]float64{"btree": 1.1e-6, "hash": 1.2e-6, "gin": 4e-6, "gist": 8e-6, "spgist": 5e-6, "brin": 0.15e-6},
		CheckRow: 6e-6, Validate: 0.3e-6, Vacuum: 0.6e-6, Shared: 0.45, Fixed: 0.05,
		Page: 30e-6, Start: 0.05,
	}
}

// of is a figure by access method; of an unknown one that of GiST.
func of(m map[string]float64, method string) float64 {
	if v, ok := m[method]; ok {
		return v
	}
	return m["gist"]
}

// speedup is how much faster n connections are than one.
func (m Model) speedup(n int) float64 { return 1 + m.Shared*float64(max(n, 1)-1) }

// load estimates what loading costs in the given circumstances.
type load struct {
	m        Model
	fresh    float64 // rows to come
	there    float64 // rows there already
	width    float64 // bytes of a record
	conns    int
	sessions int
	memory   int64 // what the server can cache, about
}

// newEntry is about the bytes of an index's entry while there are too few to
// tell.
const newEntry = 40.0

// keep is the cost of the object standing while the rows come in.
func (l load) keep(o Object) float64 {
	switch o.Kind {
	case ForeignKey:
		return l.fresh * l.m.CheckRow / l.m.speedup(l.conns)
	case Trigger:
		return 0
	}
	per := of(l.m.Insert, o.Method)
	entry := newEntry
	if l.there >= 1000 {
		entry = float64(o.Bytes) / l.there
	}
	if grown := entry * (l.there + l.fresh); l.memory > 0 && grown > float64(l.memory) && o.Method != "brin" {
		per *= 8 // each entry reads a page of its own
	}
	s := l.fresh * per * depth(l.there+l.fresh)
	if o.queues() { // one connection at a time
		return s
	}
	return s/l.m.speedup(l.conns) + l.pages(o)*l.m.Page
}

// pages is how many pages of a standing index the new rows touch, if they come
// in no order. New pages, those of BRIN and the list of GIN are next to nothing.
func (l load) pages(o Object) float64 {
	if l.there == 0 || o.Method == "brin" || o.Method == "gin" {
		return 0
	}
	return min(float64(o.Bytes)/8192, l.fresh)
}

// build is the cost of making the object once all rows are there.
func (l load) build(o Object) float64 {
	all := l.there + l.fresh
	switch o.Kind {
	case ForeignKey:
		return all * l.m.Validate
	case Trigger:
		return 0
	}
	return all * of(l.m.Build, o.Method) * depth(all)
}

// depth makes what is measured at 600,000 rows fit other sizes.
func depth(rows float64) float64 { return math.Log2(max(rows, 1000)) / math.Log2(600_000) }

func (l load) copy() float64 {
	return l.fresh * (l.m.CopyRow + l.width*l.m.CopyByte) / l.m.speedup(l.conns)
}

// rebuild is how long the builds take side by side, the longest first.
func (l load) rebuild(objects []Object) float64 {
	if len(objects) == 0 {
		return 0
	}
	var costs []float64
	for _, o := range objects {
		costs = append(costs, l.build(o))
	}
	slices.Sort(costs)
	slices.Reverse(costs)
	busy := make([]float64, max(l.sessions, 1))
	for _, c := range costs {
		i := slices.Index(busy, slices.Min(busy))
		busy[i] += c
	}
	return l.m.Fixed + slices.Max(busy)
}

// total is how long the load takes with some of the objects dropped.
func (l load) total(objects []Object, drop []bool) float64 {
	var gone []Object
	sum := l.copy()
	for i, o := range objects {
		if drop[i] {
			gone = append(gone, o)
		} else {
			sum += l.keep(o)
		}
	}
	return sum + l.rebuild(gone)
}

// without is the total with the decision on one object turned round.
func (l load) without(objects []Object, drop []bool, i int) float64 {
	other := slices.Clone(drop)
	other[i] = !other[i]
	return l.total(objects, other)
}

// choose says which of the objects to drop so that the whole is shortest.
func (l load) choose(objects []Object) []bool {
	best := make([]bool, len(objects))
	all := slices.Repeat([]bool{true}, len(objects))
	if l.total(objects, all) < l.total(objects, best) {
		best = all
	}
	for better := true; better; {
		better = false
		for i := range objects {
			if l.without(objects, best, i) < l.total(objects, best) {
				best[i], better = !best[i], true
			}
		}
	}
	return best
}
