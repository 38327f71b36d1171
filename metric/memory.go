package metric

import "encoding/binary"

// Memory is what a collector must remember from round to round of one server:
// a position in a log and what was counted up to there, a list that is costly
// to read. Who runs the collector hands the same one to each round; it may be
// lost at any time, and the collector then begins anew.
type Memory struct {
	// Keep outlives the process, for what must be known after a restart; nil:
	// nothing is kept.
	Keep   Keeper
	value  any
	series map[string]*Series
}

// Keeper keeps what one collector of one server must know after a restart.
type Keeper interface {
	// Load returns what was saved last, nil if nothing was.
	Load() ([]byte, error)
	// Save replaces it. When it returns nil, the bytes survive a power loss.
	Save([]byte) error
}

// Kept returns the collector's memory of type T: the same at each round, a
// zero T at the first.
func Kept[T any](o *Out) *T {
	if v, ok := o.Memory.value.(*T); ok {
		return v
	}
	v := new(T)
	o.Memory.value = v
	return v
}

// Server is the name of the server that the round is about, "" for the
// machine itself.
func (o *Out) Server() string {
	for _, l := range o.common {
		if l.Name == "server" {
			return l.Value
		}
	}
	return ""
}

// knownSeries bounds the memory of series of one collector and server.
const knownSeries = 20_000

// find returns the series of a definition and values, and makes it where it is
// met for the first time: checking and hashing a name costs far more than
// looking it up.
func (o *Out) find(d *Def, values []string) (*Series, error) {
	m := o.Memory
	key := append(o.key[:0], d.Name...)
	for _, v := range values {
		key = append(binary.AppendUvarint(key, uint64(len(v))), v...)
	}
	o.key = key
	if s, ok := m.series[string(key)]; ok {
		return s, nil
	}
	ls := append(make([]Label, 0, len(o.common)+len(values)), o.common...)
	for i, v := range values {
		ls = append(ls, Label{d.Labels[i], Clean(v)})
	}
	s, err := NewSeries(d.Name, ls)
	if err != nil {
		return nil, err
	}
	if m.series == nil || len(m.series) >= knownSeries {
		m.series = map[string]*Series{}
	}
	m.series[string(key)] = s
	return s, nil
}
