package record

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"
)

// split checks a Splitter against a Reader on the same input: all bytes are
// in chunks, bad records or the header; every cut is where the Reader sees a
// record end; lines and counts agree.
func split(t *testing.T, in []byte, o Options, size int) {
	t.Helper()
	type end struct{ line, records int64 }
	ends := map[int64]end{} // where records end, the line behind it, records so far
	r := NewReader(bytes.NewReader(in), o)
	var rerr error
	n := int64(0)
	_, herr := r.Header()
	if herr == nil {
		ends[r.s.off] = end{r.s.line, 0}
	}
	for herr == nil {
		rec, err := r.Next()
		var bad *Bad
		if err != nil && !errors.As(err, &bad) {
			rerr = err
			break
		}
		e := rec.End
		if bad != nil {
			e = bad.End
		}
		n++
		ends[e] = end{r.s.line, n}
	}
	s := NewSplitter(iotest.HalfReader(bytes.NewReader(in)), o, size)
	_, serr := s.Header()
	if (serr == nil) != (herr == nil) {
		t.Fatalf("header: splitter %v, reader %v", serr, herr)
	}
	at, got := s.s.off, int64(0)
	for serr == nil {
		var c Chunk
		c, serr = s.Next()
		var bad *Bad
		switch {
		case errors.As(serr, &bad):
			at, serr = bad.End, nil
			got++
		case serr == nil:
			if c.Start != at || c.End != at+int64(len(c.Data)) || len(c.Data) == 0 {
				t.Fatalf("chunk %d to %d of %d bytes at %d", c.Start, c.End, len(c.Data), at)
			}
			if !bytes.Equal(in[c.Start:c.End], c.Data) {
				t.Fatalf("chunk at %d is not the input", at)
			}
			if e, ok := ends[c.Start]; ok && o.Format != NDJSON && e.line != c.FirstLine {
				t.Fatalf("chunk at %d: line %d, the reader says %d", at, c.FirstLine, e.line)
			}
			at = c.End
			got += c.Records
			s.Free(c)
		default:
			continue
		}
		if e, ok := ends[at]; o.Format != NDJSON && (!ok || e.records != got) {
			t.Fatalf("cut at %d after %d records; the reader: %v %v", at, got, e, ok)
		}
	}
	if (serr == io.EOF) != (rerr == io.EOF || herr == io.EOF) {
		t.Fatalf("%+v %q: splitter ends with %v, reader with %v %v", o, in, serr, rerr, herr)
	}
	if serr == io.EOF && rerr == io.EOF && got != n {
		t.Fatalf("%d records, the reader sees %d", got, n)
	}
}

func TestSplitterCutsWhereReaderDoes(t *testing.T) {
	alphabets := map[Format][]string{
		CSV:    {"a", ",", "\"", "\"\"", "\n", "\n", "\\", ".", "\r\n", "xyz", "\n\\.\n"},
		Text:   {"a", "\t", "\\", "\\\\", "\n", "\n", ".", "\\N", "\r\n", "\\\n", "\n\\.\n"},
		NDJSON: {"{}", "\n", "\n", " ", "\r\n", "{\"a\":\"b\"}", "[1]"},
	}
	for f, words := range alphabets {
		for seed := range uint64(3000) {
			rnd := rand.New(rand.NewPCG(seed, uint64(f)))
			var b bytes.Buffer
			for range rnd.IntN(900) {
				w := words[rnd.IntN(len(words))]
				if seed%3 > 0 && strings.ContainsAny(w, "\r.") {
					w = "b" // most inputs have one style of line breaks
				}
				b.WriteString(w)
			}
			o := Options{Format: f, Header: seed%5 == 0}
			if seed%7 == 0 {
				o.Escape = '\\'
			}
			if seed%11 == 0 {
				o.MaxRecord = 40
			}
			split(t, b.Bytes(), o, 1<<10)
		}
	}
}

func TestChunksKeepTheirSize(t *testing.T) {
	line := strings.Repeat("x", 99) + "\n"
	in := strings.Repeat(line, 50_000)
	s := NewSplitter(strings.NewReader(in), Options{}, 64<<10)
	chunks, records := 0, int64(0)
	for {
		c, err := s.Next()
		if err == io.EOF {
			break
		}
		if err != nil || len(c.Data) > 64<<10 {
			t.Fatal(len(c.Data), err)
		}
		chunks++
		records += c.Records
		if chunks%2 == 0 {
			s.Free(c)
		}
	}
	if records != 50_000 || chunks > 80 {
		t.Errorf("%d records in %d chunks", records, chunks)
	}
}

// One record that is longer than a chunk comes as a chunk of its own.
func TestLongRecord(t *testing.T) {
	in := "a\n\"" + strings.Repeat("long\n", 5000) + "\"\nb\n"
	s := NewSplitter(strings.NewReader(in), Options{}, 1<<10)
	var sizes []int
	for {
		c, err := s.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		sizes = append(sizes, len(c.Data))
	}
	if len(sizes) < 2 || sizes[0] != 2 || sizes[1] < 25_000 {
		t.Error(sizes)
	}
}

func BenchmarkSplitter(b *testing.B) {
	for name, line := range map[string]string{
		"csv":    "3d2f9a10-6d2c-4f0e-9a1b-0123456789ab,4711,Ada,Lovelace,\"Countess, of\",1815-12-10,London,some more text here\n",
		"text":   "3d2f9a10-6d2c-4f0e-9a1b-0123456789ab\t4711\tAda\tLovelace\t\\N\t1815-12-10\tLondon\tsome more text here\n",
		"ndjson": "{\"id\":4711,\"name\":\"Ada Lovelace\",\"born\":\"1815-12-10\",\"where\":\"London\",\"more\":\"some more text here\"}\n",
	} {
		b.Run(name, func(b *testing.B) {
			in := bytes.Repeat([]byte(line), 64<<20/len(line))
			f, _ := ParseFormat(name)
			b.SetBytes(int64(len(in)))
			for b.Loop() {
				s := NewSplitter(bytes.NewReader(in), Options{Format: f}, 1<<20)
				for {
					c, err := s.Next()
					if err == io.EOF {
						break
					}
					s.Free(c)
				}
			}
		})
	}
}
