package record

import (
	"bytes"
	stdgzip "compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"headroom/fail"
)

func mustRead(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func gzipped(text string) []byte {
	var b bytes.Buffer
	w := stdgzip.NewWriter(&b)
	_, _ = w.Write([]byte(text))
	_ = w.Close()
	return b.Bytes()
}

func zstded(t *testing.T, text string) []byte {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	return w.EncodeAll([]byte(text), nil)
}

func inflate(r io.Reader) (string, Kind, error) {
	d, k, err := Decompress(r)
	if err != nil {
		return "", k, err
	}
	b, err := io.ReadAll(d)
	return string(b), k, errors.Join(err, d.Close())
}

func TestDecompress(t *testing.T) {
	skippable := []byte("\x50\x2a\x4d\x18\x03\x00\x00\x00xyz")
	for _, c := range []struct {
		name string
		in   []byte
		kind Kind
		want string
	}{
		{"plain", []byte("hello"), Plain, "hello"},
		{"short", []byte("h"), Plain, "h"},
		{"empty", nil, Plain, ""},
		{"gzip", gzipped("hello"), Gzip, "hello"},
		{"gzip members", append(gzipped("hello "), gzipped("world")...), Gzip, "hello world"},
		{"zstd", zstded(t, "hello"), Zstd, "hello"},
		{"zstd frames", append(append(zstded(t, "hello "), skippable...), zstded(t, "world")...), Zstd, "hello world"},
		{"zstd skippable first", append(bytes.Clone(skippable), zstded(t, "hello")...), Zstd, "hello"},
	} {
		for _, r := range []io.Reader{bytes.NewReader(c.in), io.MultiReader(bytes.NewReader(c.in))} {
			got, kind, err := inflate(r)
			if err != nil || got != c.want || kind != c.kind {
				t.Errorf("%s: %q, %v, %v", c.name, got, kind, err)
			}
		}
	}
}

// Compressed input that is cut off, wherever, never ends like whole input.
func TestTruncatedInputIsAnError(t *testing.T) {
	text := strings.Repeat("some text, ", 300)
	for name, whole := range map[string][]byte{"gzip": gzipped(text), "zstd": zstded(t, text)} {
		for _, first := range [][]byte{nil, whole} {
			for n := 4; n < len(whole); n++ {
				in := append(bytes.Clone(first), whole[:n]...)
				got, _, err := inflate(bytes.NewReader(in))
				if err == nil {
					t.Errorf("%s cut at %d of %d (behind %d): %d bytes and no error", name, n, len(whole), len(first), len(got))
				} else if fail.HintOf(err) == "" {
					t.Errorf("%s cut at %d: no hint: %v", name, n, err)
				}
			}
		}
	}
	flipped := gzipped(text)
	flipped[len(flipped)-6] ^= 1
	if _, _, err := inflate(bytes.NewReader(flipped)); err == nil {
		t.Error("a wrong checksum passes")
	}
}

func TestPlainFileCanBeSoughtIn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "in.csv")
	if err := os.WriteFile(path, []byte("a\nb\nc\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	d, _, err := Decompress(f)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := d.(io.Seeker); !ok {
		t.Error("cannot be sought in")
	}
	r := NewReader(d, Options{})
	if err := r.SkipTo(4, 3); err != nil {
		t.Fatal(err)
	}
	if rec, err := r.Next(); err != nil || string(rec.Raw) != "c" || rec.Line != 3 {
		t.Error(rec, err)
	}
}

func TestGuess(t *testing.T) {
	for _, c := range []struct {
		name, head string
		want       Options
	}{
		{"a.csv", "id,name\n1,x\n", Options{Format: CSV, Delimiter: ',', Header: true}},
		{"a.csv", "alice,bob\ncarol,dave\n", Options{Format: CSV, Delimiter: ','}},
		{"a.csv", "1,x\n2,y\n", Options{Format: CSV, Delimiter: ','}},
		{"a.CSV.gz", "id;wert\n1;2,5\n", Options{Format: CSV, Delimiter: ';', Header: true}},
		{"people.tsv.zst", "a\t1\nb\t2\n", Options{Format: TSV}},
		{"people.tsv", "id\tn\n1\t2\n", Options{Format: TSV, Header: true}},
		{"x.txt", "1\t2\n", Options{Format: Text}},
		{"x.jsonl", "1,2\n", Options{Format: NDJSON}},
		{"-", "  {\"a\":1}\n", Options{Format: NDJSON}},
		{"-", "\xef\xbb\xbfid,n\n7,8\n", Options{Format: CSV, Delimiter: ',', Header: true}},
		{"-", "a\tb,c\n", Options{Format: TSV}},
		{"-", "", Options{Format: NDJSON}},
		{"a.csv", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11\n7\n", Options{Format: CSV, Delimiter: ','}},
	} {
		if got := Guess(c.name, []byte(c.head)); got != c.want {
			t.Errorf("%s %q: %+v, want %+v", c.name, c.head, got, c.want)
		}
	}
}

func TestRejectsStop(t *testing.T) {
	none, err := OpenRejects("", 5)
	if err != nil {
		t.Fatal(err)
	}
	err = none.Add(Bad{Line: 3, Column: "id", Reason: "missing"})
	var bad *Bad
	if !errors.As(err, &bad) || bad.Line != 3 || !strings.Contains(fail.HintOf(err), "--rejects") || err.Error() != "read line 3, column id: missing" {
		t.Error(err, fail.HintOf(err))
	}
	path := filepath.Join(t.TempDir(), "r")
	r, err := OpenRejects(path, 2)
	if err != nil {
		t.Fatal(err)
	}
	for i := range int64(3) {
		err = r.Add(Bad{Line: i, Reason: "no", Raw: []byte("x")})
		if (err != nil) != (i == 2) {
			t.Fatal(i, err)
		}
	}
	if err == nil || !strings.Contains(err.Error(), "3 bad records, at most 2") || !strings.Contains(err.Error(), "line 2: no") {
		t.Error(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if got := string(mustRead(t, path)); got != rejectsHeader+"0\t\tno\tx\n1\t\tno\tx\n2\t\tno\tx\n" {
		t.Errorf("%q", got)
	}
	if _, err := OpenRejects(t.TempDir(), 1); err == nil {
		t.Error("a folder is taken as a file")
	}
	full, err := OpenRejects("/dev/full", -1)
	if err != nil {
		t.Fatal(err)
	}
	_ = full.Add(Bad{Reason: "x"})
	if err := full.Sync(); err == nil {
		t.Error("a full disk is not told")
	}
}

// Neither parser may crash, hang or hold more than the input; the Splitter's
// cuts are record ends of the Reader, and the chunks joined are the input.
func FuzzRecords(f *testing.F) {
	for _, s := range []string{"a,b\n\"c\nd\",e\r\n", "a\\\tb\t\\N\n\\.\n", "\xef\xbb\xbfid,x\n1,\"2\n", "{\"a\":1}\n\n[]", "\\\\\n\\\n\\x4\\777\n", "\r\r\n\n\"\"\"\"", "\\.\nx", "'a''b','\n'"} {
		f.Add([]byte(s), uint8(0), byte(0), byte(0), uint16(0))
		f.Add([]byte(s), uint8(6), byte('\''), byte('\\'), uint16(8))
	}
	f.Fuzz(func(t *testing.T, in []byte, kind uint8, quote, escape byte, most uint16) {
		o := Options{Format: Format(kind % 4), Header: kind&4 != 0, Quote: quote, Escape: escape, MaxRecord: int(most)}
		if o.Check() != nil {
			return
		}
		split(t, in, o, 1<<10)
		total := 0
		r := NewReader(bytes.NewReader(in), o)
		for {
			rec, err := r.Next()
			var bad *Bad
			if err != nil && !errors.As(err, &bad) {
				break
			}
			for _, x := range rec.Fields {
				total += len(x)
			}
		}
		if total > len(in) {
			t.Fatalf("%d bytes of fields from %d", total, len(in))
		}
	})
}

func FuzzGuess(f *testing.F) {
	f.Add("a.csv", []byte("id,name\n1,x\n"))
	f.Add("-", []byte("\"a\nb\"\t1\n"))
	f.Fuzz(func(t *testing.T, name string, head []byte) {
		o := Guess(name, head)
		if err := o.Check(); err != nil {
			t.Fatalf("%+v: %v", o, err)
		}
		split(t, head, o, 1<<10)
	})
}

func FuzzDecompress(f *testing.F) {
	f.Add(gzipped("hello"))
	f.Add([]byte("\x28\xb5\x2f\xfd\x04\x00\x29\x00\x00hello"))
	f.Add([]byte("\x50\x2a\x4d\x18\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, in []byte) {
		d, _, err := Decompress(bytes.NewReader(in))
		if err != nil {
			return
		}
		defer d.Close()
		_, _ = io.Copy(io.Discard, io.LimitReader(d, 1<<20))
	})
}
