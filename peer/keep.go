package peer

import "time"

// Kept is a document as the store keeps it.
type Kept struct {
	Host     string
	Kind     Kind
	Received time.Time
	Body     []byte
}

// Unkept lists what was told and is not in the store yet. Sessions are of now
// and never kept.
func (b *Book) Unkept() (out []Kept) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for name, f := range b.forgotten {
		if !f.kept {
			out = append(out, Kept{name, mark, f.at, []byte("{}")})
		}
	}
	for name, e := range b.hosts {
		for k, t := range e.told {
			if t.kept {
				continue
			}
			if _, body, err := t.read(); err == nil { // it was read when it came
				out = append(out, Kept{name, k.kind, t.received, body})
			}
		}
	}
	return out
}

// IsKept says that the store has documents now, unless newer ones came since.
func (b *Book) IsKept(list []Kept) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, k := range list {
		if f, ok := b.forgotten[k.Host]; ok && k.Kind == mark && f.at.Equal(k.Received) {
			f.kept = true
			b.forgotten[k.Host] = f
		}
		if e := b.hosts[k.Host]; e != nil {
			if t := e.told[key{kind: k.Kind}]; t != nil && t.received.Equal(k.Received) {
				t.kept = true
			}
		}
	}
}

// Restore puts back what the store has kept. What was told since the start is
// newer and stays; what cannot be read any more is passed over, as its host
// tells it anew; so is what a host told before it was forgotten.
func (b *Book) Restore(list []Kept) {
	b.mu.Lock()
	for _, k := range list {
		if k.Kind == mark && b.hosts[k.Host] == nil {
			b.forgotten[k.Host] = forgotten{k.Received, true}
		}
	}
	b.mu.Unlock()
	for _, k := range list {
		d, err := decode(k.Body)
		if err != nil || d.Host != k.Host || d.Kind != k.Kind || d.Host == b.o.Own || b.Forgotten(k.Host, k.Received) {
			continue
		}
		b.restore(k, d)
	}
}

func (b *Book) restore(k Kept, d *Document) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.open(k.Host)
	if e == nil || e.told[key{kind: k.Kind}] != nil || b.put(e, key{kind: k.Kind}, d, k.Body, k.Received, true) != nil {
		return
	}
	if k.Received.After(e.heard) {
		e.heard = k.Received
	}
}
