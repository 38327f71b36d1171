package upsert

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"
	"time"
)

// item is one row of a batch. Its bytes lie in the batch's data: the key for
// comparing, the fields as they are sent (each a length, -1 for NULL, and its
// bytes), and the texts of the key's fields that are sent in another form.
type item struct {
	prefix    uint64 // the key's first bytes
	off       int
	key       int32
	fields    int32
	seq, line int64
}

// batch is rows for one connection, in the order they came.
type batch struct {
	items  []item
	data   []byte
	before int64 // the writer's last Seq before the first row
	born   time.Time
	bytes  int64 // that count against the memory limit
	width  int   // lanes in use when its rows were dealt

	order []ref
	rows  []outRow
	cuts  []int    // ends of the parts of rows that are written one after the other
	lone  []outRow // rows that are written one by one, after the others
	extra []byte   // fields made by combining

	settled []bool // by item, with Options.Source: in, or refused
}

// ref stands for an item while sorting.
type ref struct {
	prefix uint64
	i      int32
}

// outRow is what is sent for all the items with one key, order[lo:hi].
type outRow struct {
	fields []byte
	lo, hi int32
}

func (b *batch) key(i int32) []byte {
	it := &b.items[i]
	return b.data[it.off : it.off+int(it.key)]
}

func (b *batch) fields(i int32) []byte {
	it := &b.items[i]
	from := it.off + int(it.key)
	return b.data[from : from+int(it.fields)]
}

func (b *batch) reset() {
	b.items, b.data, b.order, b.rows, b.extra = b.items[:0], b.data[:0], b.order[:0], b.rows[:0], b.extra[:0]
	b.bytes = 0
	b.settled = nil
	// What one giant row needed is not kept for all that follow.
	if cap(b.data) > 1<<26 {
		b.data = nil
	}
	if cap(b.extra) > 1<<24 {
		b.extra = nil
	}
}

func prefixOf(key []byte) uint64 {
	if len(key) >= 8 {
		return binary.BigEndian.Uint64(key)
	}
	var b [8]byte
	copy(b[:], key)
	return binary.BigEndian.Uint64(b[:])
}

// settle sorts the rows by key and makes one row of those with the same key,
// as if they had been written one after the other. Those of which that is not
// certain (a document that is not JSON among them) go to lone.
func (b *batch) settle(p *plan) {
	b.order, b.rows, b.cuts, b.lone, b.extra = b.order[:0], b.rows[:0], b.cuts[:0], b.lone[:0], b.extra[:0]
	for i := range b.items {
		b.order = append(b.order, ref{b.items[i].prefix, int32(i)})
	}
	if p.vague {
		b.settleVague()
		return
	}
	slices.SortFunc(b.order, func(x, y ref) int {
		if x.prefix != y.prefix {
			return cmp.Compare(x.prefix, y.prefix)
		}
		if d := bytes.Compare(b.key(x.i), b.key(y.i)); d != 0 {
			return d
		}
		return cmp.Compare(x.i, y.i)
	})
	for lo := 0; lo < len(b.order); {
		hi := lo + 1
		for hi < len(b.order) && b.order[hi].prefix == b.order[lo].prefix && bytes.Equal(b.key(b.order[hi].i), b.key(b.order[lo].i)) {
			hi++
		}
		r := outRow{lo: int32(lo), hi: int32(hi)}
		var ok bool
		if r.fields, ok = b.combine(p, b.order[lo:hi]); ok {
			b.rows = append(b.rows, r)
		} else {
			for i := lo; i < hi; i++ {
				b.lone = append(b.lone, b.one(int32(i)))
			}
		}
		lo = hi
	}
	b.cuts = append(b.cuts, len(b.rows))
}

// settleVague keeps the rows in the order they came, for keys of which only
// the server knows whether they are equal. It cuts before a key that is
// likely to be met again, so that the server seldom has to say so.
func (b *batch) settleVague() {
	seen := map[string]bool{}
	for i := range b.order {
		k := string(bytes.ToLower(b.key(int32(i))))
		if seen[k] {
			b.cuts = append(b.cuts, len(b.rows))
			clear(seen)
		}
		seen[k] = true
		b.rows = append(b.rows, b.one(int32(i)))
	}
	b.cuts = append(b.cuts, len(b.rows))
}

// one is the row of one item alone, by its place in the order.
func (b *batch) one(at int32) outRow {
	return outRow{fields: b.fields(b.order[at].i), lo: at, hi: at + 1}
}

func (b *batch) combine(p *plan, same []ref) ([]byte, bool) {
	last := same[len(same)-1].i
	switch {
	case len(same) == 1, p.mode == Replace:
		return b.fields(last), true
	case p.mode == Ignore:
		return b.fields(same[0].i), true
	}
	from := len(b.extra)
	var ok bool
	b.extra, ok = p.merge(b.extra, b, same)
	if !ok {
		b.extra = b.extra[:from]
		return nil, false
	}
	return b.extra[from:], true
}

// cutField takes the first field off fields; null says it is NULL.
func cutField(fields []byte) (value []byte, null bool, rest []byte) {
	n := int32(binary.BigEndian.Uint32(fields))
	if n < 0 {
		return nil, true, fields[4:]
	}
	return fields[4 : 4+n], false, fields[4+n:]
}

func appendField(dst, value []byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(value)))
	return append(dst, value...)
}

func appendNull(dst []byte) []byte { return append(dst, 0xff, 0xff, 0xff, 0xff) }

// original is the row as it was handed in.
func (b *batch) original(p *plan, at int32) Row {
	it := b.items[b.order[at].i]
	r := Row{Seq: it.seq, Line: it.line}
	fields := b.fields(b.order[at].i)
	raw := b.data[it.off+int(it.key)+int(it.fields):]
	for _, c := range p.key {
		var v []byte
		var null bool
		v, null, fields = cutField(fields)
		if c.own && !null {
			v, _, raw = cutField(raw)
		}
		r.Key = append(r.Key, cloneField(v, null))
	}
	for _, c := range p.values {
		var v []byte
		var null bool
		v, null, fields = cutField(fields)
		if c.own && !null {
			v = v[1:] // jsonb's version
		}
		r.Values = append(r.Values, cloneField(v, null))
	}
	return r
}

func cloneField(v []byte, null bool) []byte {
	if null {
		return nil
	}
	return append([]byte{}, v...)
}
