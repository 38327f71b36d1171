package metric

import (
	"bytes"
	"slices"
)

// list is the keys of one batch as they were encoded, and their series. A
// sender's next batch most often begins with the same bytes: then they need not
// be read.
type list struct {
	text   []byte
	series []*Series
}

// listHead is how much of the keys' text finds a list. The first key is within
// it, and that names the host.
const listHead = 64

// again gives a batch the series of a list that was met before, if its keys
// are the same.
func (d *Decoder) again(b *Batch, c *cursor) bool {
	l := d.lists[string(c.rest[:min(len(c.rest), listHead)])]
	if l == nil || !bytes.HasPrefix(c.rest, l.text) {
		return false
	}
	c.rest = c.rest[len(l.text):]
	b.Rows = make([]Row, len(l.series))
	for i, s := range l.series {
		b.Rows[i].Series = s
	}
	return true
}

// keep remembers the keys of a batch, in place of others that began the same.
func (d *Decoder) keep(b *Batch, text []byte) {
	if len(text) < listHead {
		return // what follows the keys would be part of how it begins
	}
	if old := d.lists[string(text[:listHead])]; old != nil {
		d.kept -= len(old.series)
	}
	if d.kept += len(b.Rows); d.lists == nil || d.kept > knownLimit {
		d.lists, d.kept = map[string]*list{}, len(b.Rows)
	}
	l := &list{slices.Clone(text), make([]*Series, len(b.Rows))}
	for i := range b.Rows {
		l.series[i] = b.Rows[i].Series
	}
	d.lists[string(text[:listHead])] = l
}
