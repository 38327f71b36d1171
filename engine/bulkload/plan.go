package bulkload

import (
	"fmt"
	"regexp"
	"slices"

	"headroom/fail"
	"headroom/unit"
)

// Way is how the rows get in.
type Way string

// The ways. Each loads the same rows; they differ in speed and in what stands
// when it is interrupted.
const (
	// Chunks go over several connections and are committed one by one, each
	// with a note of it in the same transaction.
	Chunks Way = "chunks"
	// Frozen is one COPY FREEZE in the transaction that empties or makes the
	// table: no WAL, and no VACUUM afterwards.
	Frozen Way = "frozen"
	// Whole is one transaction with everything in it: all or nothing.
	Whole Way = "one transaction"
)

// Decision is what becomes of one index, constraint or trigger, and why.
type Decision struct {
	Object Object  `json:"object"`
	Drop   bool    `json:"drop"` // a trigger is disabled instead
	Why    string  `json:"why"`
	Keep   float64 `json:"keep_seconds"`
	Build  float64 `json:"build_seconds"`
}

// Phase is one part of the work with the time it is thought to take.
type Phase struct {
	Name    string  `json:"name"`
	Seconds float64 `json:"seconds"`
	Note    string  `json:"note,omitempty"`
}

// Plan is all that a load will do.
type Plan struct {
	Table       Table      `json:"table"`
	Server      Server     `json:"server"`
	Input       Estimate   `json:"input"`
	Columns     []string   `json:"columns"` // that the input fills, in its order
	Way         Way        `json:"way"`
	Create      []string   `json:"create,omitempty"` // statements that make the table
	Attach      *Attach    `json:"attach,omitempty"`
	Truncate    bool       `json:"truncate,omitempty"`
	Decisions   []Decision `json:"decisions"`
	Connections int        `json:"connections"`
	Chunk       int        `json:"chunk"`                // bytes of input in one transaction
	Sessions    int        `json:"sessions"`             // that build side by side
	Memory      int64      `json:"maintenance_work_mem"` // bytes, of each
	Workers     int        `json:"workers"`              // parallel workers of each
	Before      string     `json:"before,omitempty"`     // vacuum, where many rows are dead
	After       string     `json:"after"`                // VACUUM ANALYZE, ANALYZE or ""
	AfterWhy    string     `json:"after_why"`
	Phases      []Phase    `json:"phases"`
	Notes       []string   `json:"notes,omitempty"`
	Model       Model      `json:"model"`
}

// Drops lists what is dropped, or disabled, and comes back.
func (p *Plan) Drops() []Object {
	var out []Object
	for _, d := range p.Decisions {
		if d.Drop {
			out = append(out, d.Object)
		}
	}
	return out
}

// Seconds is the estimate for the whole.
func (p *Plan) Seconds() float64 {
	sum := 0.0
	for _, ph := range p.Phases {
		sum += ph.Seconds
	}
	return sum
}

// makePlan decides. It is a function of what was looked at and asked for, and
// touches nothing.
func makePlan(t Table, s Server, in Estimate, o Options) (*Plan, error) {
	p := &Plan{Table: t, Server: s, Input: in, Truncate: o.Truncate, Model: Measured(), Attach: o.attach}
	if o.Truncate && !t.MayTruncate && o.Create == nil {
		return nil, fail.Hint(fmt.Errorf("empty %s: %w", &t, fail.ErrDenied), "GRANT TRUNCATE ON %s TO the user that loads", &t)
	}
	if o.Truncate && len(t.Referenced) > 0 {
		return nil, fail.Hint(fmt.Errorf("empty %s: %s refers to it", &t, t.Referenced[0]), "leave out --truncate, and delete what shall go yourself")
	}
	p.Way = p.way(o)
	p.Connections = p.connections(o)
	p.Chunk = p.chunk()
	l := p.load()
	p.decide(l, o)
	if p.queues() && o.Connections == 0 {
		p.Connections = min(p.Connections, 2)
		p.Chunk = p.chunk()
		l.conns = p.Connections
		for i := range p.Decisions {
			p.Decisions[i].Keep = l.keep(p.Decisions[i].Object)
		}
	}
	p.builders()
	l.sessions = p.Sessions
	p.before()
	p.afterwards()
	p.phases(l)
	p.notes(o)
	return p, nil
}

// empty says whether the load begins with a table without rows.
func (p *Plan) empty() bool { return p.Truncate || p.Table.OID == 0 || p.Table.Rows == 0 }

// way chooses how the rows get in.
func (p *Plan) way(o Options) Way {
	t := &p.Table
	fresh := t.OID == 0 || p.empty() && t.MayTruncate && len(t.Referenced) == 0 && t.Owned
	switch {
	case o.Atomic:
		return Whole
	case p.Server.WALLevel == "minimal" && fresh && t.Kind != "p" && p.Input.Again && (!t.RowTriggers || o.NoTriggers):
		return Frozen
	}
	return Chunks
}

// connections is how many of them carry rows.
func (p *Plan) connections(o Options) int {
	switch {
	case p.Way != Chunks || o.Sorted:
		return 1
	case o.Connections > 0:
		return o.Connections
	}
	n := 4
	if p.Server.Local && p.Server.Cores > 0 {
		n = min(n, p.Server.Cores)
	}
	if p.Input.Known {
		n = int(min(int64(n), 1+p.Input.Bytes/(2*chunkLeast)))
	}
	return max(1, min(n, p.Server.Slots-2))
}

// chunk is how many bytes of input go into one transaction.
func (p *Plan) chunk() int {
	if !p.Input.Known {
		return chunkMost
	}
	// The last chunks must not keep one connection busy alone.
	return int(max(chunkLeast, min(chunkMost, p.Input.Bytes/int64(4*p.Connections))))
}

// queues says whether the rows of all connections go through one list, so
// that more than two of them wait for each other: that of new entries of a GIN
// index that stands (its fastupdate).
func (p *Plan) queues() bool {
	return p.Table.Kind == "r" && slices.ContainsFunc(p.Decisions, func(d Decision) bool {
		return !d.Drop && d.Object.queues()
	})
}

// queues says that new entries go through one list.
func (o Object) queues() bool { return o.Method == "gin" && !slowGIN.MatchString(o.IndexDef) }

var slowGIN = regexp.MustCompile(`fastupdate='?(off|false|no|0)\b`)

// load gathers the figures for the model.
func (p *Plan) load() load {
	l := load{m: p.Model, fresh: float64(p.Input.Rows), there: float64(p.Table.Rows), width: p.Input.Width, conns: p.Connections,
		memory: max(4*p.Server.Buffers, p.Server.Memory)}
	if p.Truncate {
		l.there = 0
	}
	if !p.Input.Known {
		l.fresh = max(l.there, 1_000_000)
	}
	l.sessions = p.cores()
	return l
}

func (p *Plan) cores() int {
	if p.Server.Cores > 0 {
		return p.Server.Cores
	}
	return max(1, min(4, p.Server.Workers))
}

// decide says for each object whether it goes, and why.
func (p *Plan) decide(l load, o Options) {
	var open []int
	for _, obj := range p.Table.Objects {
		d := Decision{Object: obj, Keep: l.keep(obj), Build: l.build(obj)}
		var asked bool
		if d.Why, asked = p.stays(obj, l, o); d.Why == "" {
			open = append(open, len(p.Decisions))
			d.Drop = asked
		}
		p.Decisions = append(p.Decisions, d)
	}
	var objects []Object
	for _, i := range open {
		objects = append(objects, p.Decisions[i].Object)
	}
	chosen := l.choose(objects)
	for n, drop := range chosen {
		d := &p.Decisions[open[n]]
		now, other := unit.Seconds(l.total(objects, chosen)), unit.Seconds(l.without(objects, chosen, n))
		switch {
		case d.Object.New:
			d.Why = "it is built when the rows are in"
		case d.Drop && d.Object.Kind == Trigger:
			d.Why = "asked for: --no-triggers"
		case d.Drop:
			d.Why = "asked for: --indexes drop"
		case drop:
			d.Drop = true
			d.Why = fmt.Sprintf("copy and builds take about %s so, %s with it kept", now, other)
		default:
			d.Why = fmt.Sprintf("copy and builds take about %s so, %s with it dropped", now, other)
		}
	}
	p.together()
}

// together keeps a key whose own foreign key stays, and the other way round.
func (p *Plan) together() {
	for i := range p.Decisions {
		fk := &p.Decisions[i]
		if fk.Object.Kind != ForeignKey || !fk.Object.Self || fk.Drop {
			continue
		}
		for j := range p.Decisions {
			key := &p.Decisions[j]
			if key.Object.indexed() && key.Object.OID == fk.Object.Index && key.Drop {
				key.Drop, key.Why = false, "the table's own "+fk.Object.String()+" stays and needs it"
			}
		}
	}
}

// nearlyEmpty says whether so few rows are there that nobody misses an index.
func (p *Plan) nearlyEmpty(l load) bool { return p.empty() || l.there <= 1000 && l.there <= l.fresh/10 }

// stays says why an object must stay; "" if it may go. asked says that it
// goes without weighing the cost.
func (p *Plan) stays(obj Object, l load, o Options) (why string, asked bool) {
	switch {
	case obj.New:
		return "", true
	case obj.Kind == Trigger && !o.NoTriggers:
		return "it fires as always; --no-triggers leaves it out", false
	case obj.Kind == Trigger && (obj.Enabled == "D" || obj.Enabled == "R"):
		return "it does not fire now either", false
	case obj.Fixed != "":
		return obj.Fixed, false
	case p.Table.Kind == "p":
		return "the table is partitioned: dropping it would drop that of each partition", false
	case !p.Table.Owned:
		return "only the owner of the table may drop it", false
	case obj.Kind == Trigger:
		return "", true
	case o.Indexes == "keep":
		return "asked for: --indexes keep", false
	case obj.Needed != "" && !o.Offline:
		return obj.Needed + "; --offline says that nobody does now", false
	case !p.nearlyEmpty(l) && !o.Offline:
		return fmt.Sprintf("others may need it: about %d rows are there; --offline says that nobody does", int64(l.there)), false
	}
	return "", o.Indexes == "drop"
}

// builders sets how what was dropped is made again: side by side, with memory
// that the machine has and workers for the cores that are left.
func (p *Plan) builders() {
	n, trees := 0, 0
	for _, o := range p.Drops() {
		if o.indexed() {
			n++
			if o.Method == "btree" || o.Method == "brin" && p.Server.Version >= 170000 || o.Method == "gin" && p.Server.Version >= 180000 {
				trees++
			}
		}
	}
	cores := p.cores()
	p.Sessions = max(1, min(n, cores, p.Server.Slots-1))
	if p.Way == Whole {
		p.Sessions = 1
	}
	if trees > 0 {
		p.Workers = max(0, min((cores-p.Sessions)/trees, 4))
	}
	if n == 1 || p.Way == Whole {
		p.Workers = max(0, min(cores-1, 4))
	}
	room := 2 * p.Server.Buffers
	if p.Server.Memory > 0 {
		room = p.Server.Memory / 4
	}
	p.Memory = max(p.Server.Maintenance, min(room/int64(p.Sessions), 1<<30))
}

// Dead rows from which on a VACUUM before the load pays: new rows then fill
// their room instead of making the table longer, and index pages that are full
// of dead entries are not split.
const (
	deadMost  = 10_000
	deadShare = 0.2 // of all rows
)

// before says whether the table is vacuumed first.
func (p *Plan) before() {
	t := &p.Table
	if p.Way == Chunks && t.Kind == "r" && t.Owned && !p.Truncate && t.Dead > deadMost && float64(t.Dead) > deadShare*float64(t.Dead+t.Rows) {
		p.Before = "vacuum"
	}
}

// afterwards says whether statistics and the visibility map are worth making
// at once; small additions are left to autovacuum.
func (p *Plan) afterwards() {
	there := p.Table.Rows
	if p.Truncate {
		there = 0
	}
	switch {
	case p.Input.Known && p.Input.Rows*10 < there:
		p.AfterWhy = "less than a tenth is new: autovacuum sees to it"
	case p.Way == Frozen || p.Table.Kind == "p":
		p.After, p.AfterWhy = "analyze", "statistics for the planner"
	case p.Input.Rows*2 < there:
		p.After, p.AfterWhy = "analyze", "more than a tenth is new"
	default:
		p.After, p.AfterWhy = "vacuum (analyze)", "statistics and the visibility map for what is mostly new"
	}
}

func (p *Plan) phases(l load) {
	add := func(name string, s float64, note string) {
		p.Phases = append(p.Phases, Phase{Name: name, Seconds: s, Note: note})
	}
	var indexes, foreign []Object
	kept := 0.0
	for _, d := range p.Decisions {
		switch {
		case !d.Drop:
			kept += d.Keep
		case d.Object.Kind == ForeignKey:
			foreign = append(foreign, d.Object)
		case d.Object.indexed():
			indexes = append(indexes, d.Object)
		}
	}
	if p.Before != "" {
		dead := float64(p.Table.Dead)
		add(p.Before, (dead+l.there)*l.m.Vacuum, fmt.Sprintf("%s dead rows make room for the new ones", unit.Format(dead, unit.Count)))
	}
	if len(p.Drops()) > 0 {
		add("drop", 0.02, fmt.Sprintf("%d definitions stored first", len(p.Drops())))
	}
	add("copy", l.m.Start+l.copy()+kept, fmt.Sprintf("%s, %d connections", p.Way, p.Connections))
	if len(indexes) > 0 {
		add("build", l.rebuild(indexes), fmt.Sprintf("%d sessions, maintenance_work_mem %s, %d workers each", p.Sessions, unit.Bytes(p.Memory), p.Workers))
	}
	if len(foreign) > 0 {
		add("foreign keys", l.rebuild(foreign), "added without a check, then validated")
	}
	if p.Attach != nil {
		add("attach", 0.05+l.fresh*l.m.Validate, "checked by a CHECK constraint before")
	}
	if p.After != "" {
		add(p.After, (l.fresh+l.there)*l.m.Vacuum, p.AfterWhy)
	}
}

func (p *Plan) notes(o Options) {
	note := func(format string, args ...any) { p.Notes = append(p.Notes, fmt.Sprintf(format, args...)) }
	if len(p.Drops()) > 0 && p.Way == Chunks {
		note("while a key is away, what other sessions write is not checked against it; it is when the key is built")
	}
	if slices.ContainsFunc(p.Drops(), func(o Object) bool { return o.IsUnique || o.Kind == ForeignKey }) && p.Way != Whole {
		note("rows that a dropped key forbids are found when it is built: they are named, and the table is put back; with --indexes keep such records are rejected one by one")
	}
	if p.Way == Whole && len(p.Drops()) > 0 {
		note("the table is locked from the first row to the end")
	}
	if p.Truncate && p.Way == Chunks {
		note("what is in the table now is gone as soon as the load begins, and does not come back if it fails; with --atomic it does")
	}
	for _, c := range p.Table.Columns {
		given := slices.Contains(p.Columns, c.Name)
		if given && (c.Identity != "") {
			note("column %s is filled from the input; its sequence is not moved on", c.Name)
		}
	}
	if !p.Input.Known {
		note("the size of the input is not known beforehand: times are for %d rows", int64(p.load().fresh))
	}
	if need, free := p.space(); free >= 0 && p.Input.Known && need > free {
		note("DANGER: about %s will be needed where the server has %s free", unit.Bytes(need), unit.Bytes(free))
	}
	if len(p.Table.Published) > 0 {
		note("the table is in publication %s: every row goes to the subscribers as well", p.Table.Published[0])
	}
	if p.Table.RowTriggers && !o.NoTriggers {
		note("triggers see each row; what they skip or alter is theirs to answer for")
	}
}

// space is about what table and indexes will need, and what is free; -1 if
// that is not known.
func (p *Plan) space() (need, free int64) {
	return p.Input.Bytes*3 + p.Input.Rows*30, p.Server.Free
}
