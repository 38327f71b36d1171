package record

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// readAll lists what a Reader gives: fields as a|b with NULL as ∅, bad records
// as !line reason.
func readAll(in string, o Options) (out []string, err error) {
	r := NewReader(iotest.OneByteReader(strings.NewReader(in)), o)
	for {
		rec, err := r.Next()
		var bad *Bad
		switch {
		case err == io.EOF:
			return out, nil
		case errors.As(err, &bad):
			out = append(out, fmt.Sprintf("!%d %s", bad.Line, bad.Reason))
			continue
		case err != nil:
			return out, err
		}
		if o.Format == NDJSON {
			out = append(out, string(rec.Raw))
			continue
		}
		var fields []string
		for _, f := range rec.Fields {
			if f == nil {
				fields = append(fields, "∅")
			} else {
				fields = append(fields, string(f))
			}
		}
		out = append(out, strings.Join(fields, "|"))
	}
}

func TestReaderReadsAsCOPY(t *testing.T) {
	for _, c := range []struct {
		name, in string
		o        Options
		want     []string
	}{
		{"plain", "a,b\n1,2\n", Options{}, []string{"a|b", "1|2"}},
		{"no break at the end", "a,b\n1,2", Options{}, []string{"a|b", "1|2"}},
		{"null and empty", "a,,\"\"\n", Options{}, []string{"a|∅|"}},
		{"empty line", "a\n\nb\n", Options{}, []string{"a", "∅", "b"}},
		{"quotes", "\"a\"\"b\",\"c,d\"\n", Options{}, []string{"a\"b|c,d"}},
		{"break inside quotes", "\"a\nb\",c\nd,e\n", Options{}, []string{"a\nb|c", "d|e"}},
		{"quotes in the middle", "a\"b,c\"d,e\n", Options{}, []string{"ab,cd|e"}},
		{"CR LF", "a,b\r\n\"c\r\nd\",e\r\n", Options{}, []string{"a|b", "c\r\nd|e"}},
		{"CR", "a,b\rc,d\r", Options{}, []string{"a|b", "c|d"}},
		{"LF among CR LF", "a\r\nb\nc\r\n", Options{}, []string{"a", "!2 the line ends in LF, the first one in CR LF", "c"}},
		{"CR among LF", "a\nb\rc\nd\n", Options{}, []string{"a", "!2 a carriage return stands outside quotes", "d"}},
		{"escape", `"a\"b","c\\",d` + "\n", Options{Escape: '\\'}, []string{`a"b|c\|d`}},
		{"null text", "NULL,\"NULL\",\n", Options{Null: "NULL", HasNull: true}, []string{"∅|NULL|"}},
		{"delimiter", "a;b\n", Options{Delimiter: ';'}, []string{"a|b"}},
		{"marker", "a\n\\.\nb\n", Options{}, []string{"a", "!2 " + markerCSV, "b"}},
		{"marker quoted", "\"\\.\"\nx\\.\n", Options{}, []string{`\.`, `x\.`}},
		{"byte order mark", "\xef\xbb\xbfa\n", Options{}, []string{"a"}},
		{"header", "id,n\n1,2\n", Options{Header: true}, []string{"1|2"}},

		{"text", "a\tb\n\\N\t\\\\N\n", Options{Format: Text}, []string{"a|b", `∅|\N`}},
		{"text escapes", `\b\f\n\r\t\v\101\x41\x4a1\q\07` + "\n", Options{Format: Text}, []string{"\b\f\n\r\t\vAAJ1q\a"}},
		{"text x alone", `\xg\8` + "\n", Options{Format: Text}, []string{"xg8"}},
		{"text break escaped", "a\\\nb\tc\nd\te\n", Options{Format: Text}, []string{"a\nb|c", "d|e"}},
		{"text backslashes before the break", "a\\\\\nb\n", Options{Format: Text}, []string{`a\`, "b"}},
		{"text delimiter escaped", "a\\\tb\tc\n", Options{Format: Text}, []string{"a\tb|c"}},
		{"text end", "a\n\\.\n\n", Options{Format: Text}, []string{"a"}},
		{"text marker inside", "a\\.\nb\n\\\\.\n", Options{Format: Text}, []string{"!1 " + markerText, "b", `\.`}},
		{"text CR", "a\nb\rc\nd\\\re\n", Options{Format: Text}, []string{"a", `!2 a carriage return is not escaped as \r`, "d\re"}},
		{"text CR LF", "a\r\nb\\\r\nc\r\n", Options{Format: Text}, []string{"a", "!2 the line ends in LF, the first one in CR LF", "c"}},
		{"text trailing backslash", `a\`, Options{Format: Text}, []string{"a"}},
		{"tsv header", "id\tn\n1\t\\N\n", Options{Format: TSV, Header: true}, []string{"1|∅"}},

		{"ndjson", "{\"a\":1}\n\n  \r\n[2]\r\n3", Options{Format: NDJSON}, []string{`{"a":1}`, "[2]", "3"}},
		{"too long", "a\n" + strings.Repeat("x", 50) + "\nb\n", Options{MaxRecord: 10}, []string{"a", "!2 the record has 51 bytes; at most 10 are taken", "b"}},
		{"empty", "", Options{}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := readAll(c.in, c.o)
			if err != nil || fmt.Sprintf("%q", got) != fmt.Sprintf("%q", c.want) {
				t.Errorf("got  %q, %v\nwant %q", got, err, c.want)
			}
		})
	}
}

func TestReaderEnds(t *testing.T) {
	for _, c := range []struct {
		in   string
		o    Options
		want string
	}{
		{"a\n\"b\nc\n", Options{}, "line 2: a quote that opens"},
		{"a\n\\.\nb\n", Options{Format: Text}, `line 3: there is more behind the end marker \. of line 2`},
		{"\xff\xfea\x00", Options{}, "UTF-16"},
		{"a,a\n1,2\n", Options{Header: true}, `two columns are named "a"`},
		{"a,\n1,2\n", Options{Header: true}, "column 2 has no name"},
		{strings.Repeat("x", 9) + "\"" + strings.Repeat("y\n", 500), Options{MaxRecord: 20}, "line 1: a quote that opens"},
	} {
		_, err := readAll(c.in, c.o)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.20q: %v, want …%s…", c.in, err, c.want)
		}
	}
}

// A reader that breaks gives every whole record, and then its error.
func TestReaderTellsWhatBroke(t *testing.T) {
	broken := errors.New("the cable is cut")
	r := NewReader(io.MultiReader(strings.NewReader("a,1\nb,2\nc"), iotest.ErrReader(broken)), Options{})
	for _, want := range []string{"a", "b"} {
		rec, err := r.Next()
		if err != nil || string(rec.Fields[0]) != want {
			t.Fatalf("%q, %v, want %s", rec.Fields, err, want)
		}
	}
	for range 2 {
		if _, err := r.Next(); !errors.Is(err, broken) {
			t.Fatalf("%v", err)
		}
	}
}

// What a Reader tells of a record is enough to go on behind it.
func TestSkipToGoesOn(t *testing.T) {
	in := "id,t\n1,\"a\nb\"\n2,c\n3,\"d\n\n\"\n4,e\n"
	for _, seekable := range []bool{true, false} {
		r := NewReader(strings.NewReader(in), Options{Header: true})
		var ends []Rec
		for {
			rec, err := r.Next()
			if err == io.EOF {
				break
			}
			ends = append(ends, Rec{Line: rec.Line, Start: rec.Start, End: rec.End, Raw: bytes.Clone(rec.Raw)})
		}
		for i, e := range ends {
			var src io.Reader = strings.NewReader(in)
			if !seekable {
				src = iotest.HalfReader(io.MultiReader(src))
			}
			again := NewReader(src, Options{Header: true})
			if err := again.SkipTo(e.Start, e.Line); err != nil {
				t.Fatal(err)
			}
			names, err := again.Header()
			if err != nil || fmt.Sprint(names) != "[id t]" {
				t.Fatal(names, err)
			}
			got, err := again.Next()
			if err != nil || string(got.Raw) != string(e.Raw) || got.Line != e.Line || got.End != e.End {
				t.Errorf("record %d: %+v, %v, want %+v", i, got, err, e)
			}
		}
		r = NewReader(strings.NewReader(in), Options{Header: true})
		if err := r.SkipTo(int64(len(in))+1, 1); err == nil {
			t.Error("skipped behind the end")
		}
	}
}

func TestOptionsThatCOPYRefuses(t *testing.T) {
	for _, o := range []Options{
		{Delimiter: '\n'}, {Delimiter: '"'}, {Quote: '\r'}, {Null: "a,b", HasNull: true}, {Null: "\"", HasNull: true},
		{Null: "\n", HasNull: true}, {Format: Text, Delimiter: 'a'}, {Format: Text, Delimiter: '\\'}, {Delimiter: 0xc3},
	} {
		if o.Check() == nil {
			t.Errorf("%+v passes", o)
		}
	}
	for _, o := range []Options{{}, {Format: TSV}, {Format: Text, Delimiter: '|'}, {Delimiter: '\t', Quote: '\''}, {Format: NDJSON}} {
		if err := o.Check(); err != nil {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// The buffer does not stay as large as the largest record was.
func TestMemoryComesBack(t *testing.T) {
	in := strings.Repeat("x", 8<<20) + "\n" + strings.Repeat("y\n", 2<<20)
	r := NewReader(strings.NewReader(in), Options{})
	for {
		if _, err := r.Next(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if cap(r.s.buf) > 2*startBuffer {
		t.Errorf("the buffer keeps %d bytes", cap(r.s.buf))
	}
	long := NewReader(io.LimitReader(zeros{}, 64<<20), Options{Format: NDJSON, MaxRecord: 1 << 20})
	_, err := long.Next()
	var bad *Bad
	if !errors.As(err, &bad) || bad.Bytes != 64<<20 || cap(long.s.buf) > 4<<20 {
		t.Errorf("%v; the buffer has %d bytes", err, cap(long.s.buf))
	}
}

// zeros is an endless record.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = '0'
	}
	return len(b), nil
}
