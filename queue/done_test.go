package queue

import (
	"encoding/binary"
	"hash/crc32"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// The set says what a plain one does, and survives the cursor's file.
func TestDoneSet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d, plain := doneSet{low: 1}, map[uint64]bool{}
		for range rapid.IntRange(0, 40).Draw(t, "steps") {
			lo := rapid.Uint64Range(1, 60).Draw(t, "lo")
			hi := lo + rapid.Uint64Range(0, 5).Draw(t, "more")
			added := uint64(0)
			for v := lo; v <= hi; v++ {
				if !plain[v] {
					added++
				}
				plain[v] = true
			}
			if got := d.add(lo, hi); got != added {
				t.Fatalf("adding %d to %d added %d, want %d", lo, hi, got, added)
			}
		}
		c, err := parseCursor(cursor{100, d}.encode())
		if err != nil || c.next != 100 || c.done.low != d.low || !slices.Equal(c.done.spans, d.spans) {
			t.Fatalf("%+v came back as %+v, %v", d, c, err)
		}
		for v := uint64(1); v <= 70; v++ {
			if d.has(v) != plain[v] {
				t.Fatalf("%d: %v in %+v", v, d.has(v), d)
			}
		}
		if d.low-1+d.above() != uint64(len(plain)) {
			t.Fatalf("%d done, counted %d", len(plain), d.low-1+d.above())
		}
		lo := rapid.Uint64Range(1, 60).Draw(t, "from")
		hi := rapid.Uint64Range(lo, 66).Draw(t, "to")
		all := true
		for v := lo; v <= hi; v++ {
			all = all && plain[v]
		}
		if d.covers(lo, hi) != all {
			t.Fatalf("%d to %d covered: %v", lo, hi, !all)
		}
	})
}

// sealed is a cursor's file with any contents.
func sealed(raw []byte) []byte {
	b := append([]byte(cursorMagic), raw...)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

func FuzzCursor(f *testing.F) {
	f.Add(cursor{7, doneSet{2, []span{{3, 4}, {6, 6}}}}.encode())
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, form := range [][]byte{raw, sealed(raw)} {
			c, err := parseCursor(form)
			if err != nil {
				continue
			}
			back, err := parseCursor(c.encode())
			if err != nil || back.next != c.next || !slices.Equal(back.done.spans, c.done.spans) {
				t.Fatalf("%+v came back as %+v, %v", c, back, err)
			}
		}
	})
}

func FuzzDead(f *testing.F) {
	f.Add(encodeDead(DeadLetter{Reason: "no", Data: []byte("x")}))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if d, err := parseDead("x", raw); err == nil && string(encodeDead(d)) != string(raw) {
			t.Fatalf("%+v is written in another way", d)
		}
	})
}

// FuzzSegment reads any bytes as a file of messages: each read moves on.
func FuzzSegment(f *testing.F) {
	frames := appendFrame(appendFrame(nil, []byte("one"), 1, sumOf([]byte("one"))), []byte("two"), 2, sumOf([]byte("two")))
	sealFrames(frames, 5, 9)
	f.Add(frames)
	f.Fuzz(func(t *testing.T, raw []byte) {
		d := newDouble(t)
		d.files["x"] = &node{data: raw}
		file, _ := d.Open("x")
		s := &segment{salt: 9, end: int64(len(raw))}
		for off := int64(0); ; {
			p, ok, err := s.scan(file, off)
			if err != nil {
				t.Fatal(err)
			}
			if !ok {
				break
			}
			if p.size <= 0 || p.off != off || off+p.size > s.end {
				t.Fatalf("%d bytes at %d of %d", p.size, p.off, s.end)
			}
			off += p.size
		}
	})
}
