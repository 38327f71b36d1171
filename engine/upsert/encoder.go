package upsert

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// encoder holds what one row becomes before it is in a batch.
type encoder struct{ key, fields, raw, tmp []byte }

// maxRow leaves room for the rest of a message, which may have 1 GiB.
const maxRow = 1<<30 - 1<<20

var encoders = sync.Pool{New: func() any { return &encoder{} }}

// encode makes a row's bytes. A refusal is the row's fault, an error is not.
func (s *encoder) encode(ctx context.Context, w *Writer, r Row) (refusal, err error) {
	s.key, s.fields, s.raw = s.key[:0], s.fields[:0], s.raw[:0]
	if cap(s.fields) > 1<<20 {
		s.fields = nil
	}
	size := 0
	for _, fields := range [][][]byte{r.Key, r.Values} {
		for _, v := range fields {
			size += len(v)
		}
	}
	if size > maxRow {
		return fmt.Errorf("the row has %d bytes, and the server takes less than 1 GiB", size), nil
	}
	for i, c := range w.plan.key {
		v := r.Key[i]
		if v == nil {
			return fmt.Errorf("key column %q is NULL: NULLs are never the same key", c.Name), nil
		}
		if refusal, err := s.keyField(ctx, w, c, v); refusal != nil || err != nil {
			return refusal, err
		}
	}
	for i, c := range w.plan.values {
		v := r.Values[i]
		switch w.plan.roles[i] {
		case adds:
			if v == nil {
				v = []byte("0")
			}
		case merges:
			if v == nil {
				break
			}
			if len(w.plan.fields) > 0 {
				if v, refusal = withFields(v, w.plan.fields); refusal != nil {
					return refusal, nil
				}
			} else if !isObject(v) {
				return errors.New("the document is not a JSON object, and only objects can be merged"), nil
			}
		}
		if v == nil {
			s.fields = appendNull(s.fields)
			continue
		}
		s.fields = s.field(s.fields, c, v)
	}
	return nil, nil
}

// field appends a value in the form it is sent in.
func (s *encoder) field(dst []byte, c *column, v []byte) []byte {
	if c.wire == nil {
		return appendField(dst, v)
	}
	at := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	dst, _ = c.wire(dst, v, c) // a value's codec takes everything
	putLength(dst, at)
	return dst
}

func putLength(dst []byte, at int) {
	n := uint32(len(dst) - at - 4)
	dst[at], dst[at+1], dst[at+2], dst[at+3] = byte(n>>24), byte(n>>16), byte(n>>8), byte(n)
}

// keyField appends a key's value to the key and to the fields.
func (s *encoder) keyField(ctx context.Context, w *Writer, c *column, v []byte) (refusal, err error) {
	from := len(s.key)
	text := v
	key, ok := c.appendKey(s.key, text, false)
	if !ok {
		if text, err = w.side.ask(ctx, c, v); err != nil {
			if classify(err, false) == data {
				return err, nil
			}
			return nil, err
		}
		if key, ok = c.appendKey(s.key[:from], text, true); !ok {
			return fmt.Errorf("key column %q: %q is a value that is not supported as a key", c.Name, text), nil
		}
	}
	s.key = key
	if c.own {
		// What is sent is what is compared.
		s.fields = appendField(s.fields, s.key[from:])
		s.raw = appendField(s.raw, v)
	} else {
		s.fields = appendField(s.fields, text)
	}
	if len(w.plan.key) > 1 {
		s.key = s.separate(s.key, from)
	}
	return nil, nil
}

// separate makes a part of a key end where no other part's bytes can: zero
// bytes in it become 00 ff, its end is 00 00. The order stays.
func (s *encoder) separate(key []byte, from int) []byte {
	s.tmp = append(s.tmp[:0], key[from:]...)
	key = key[:from]
	for _, b := range s.tmp {
		if key = append(key, b); b == 0 {
			key = append(key, 0xff)
		}
	}
	return append(key, 0, 0)
}
