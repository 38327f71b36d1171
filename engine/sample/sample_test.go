package sample

import (
	"bytes"
	stdcsv "encoding/csv"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// What a seed means must never change: results of other releases could not be
// compared with ours.
func TestSameSeedSameBytesForEver(t *testing.T) {
	h := fnv.New64a()
	g := People(7).WithBad(0.1)
	zipf, even := Zipf(1_000_000, 1.2, 7), Uniform(1_000_000, 7)
	for i := range int64(1000) {
		b := g.AppendTSV(nil, i*1_000_003)
		b = g.AppendCSV(b, i)
		b = g.AppendJSON(b, i)
		b = Reading(b, 7, i, i%3, 300)
		fmt.Fprintf(h, "%s %d %d", b, zipf.At(i), even.At(i))
	}
	const want uint64 = 0xd16cf60565253b55
	if got := h.Sum64(); got != want {
		t.Errorf("the data of seed 7 is %#x, want %#x", got, want)
	}
	if string(People(1).AppendTSV(nil, 5)) == string(People(2).AppendTSV(nil, 5)) {
		t.Error("two seeds give the same row")
	}
}

func TestPeopleInThreeForms(t *testing.T) {
	g := People(3)
	id := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	seen := map[string]bool{}
	var bytesOf, multibyte, quoted, null int
	const n = 50_000
	for i := range int64(n) {
		text := strings.TrimSuffix(string(g.AppendTSV(nil, i)), "\n")
		bytesOf += len(text) + 1
		f := strings.Split(text, "\t")
		if len(f) != len(PeopleColumns) || strings.ContainsAny(text, "\n\"") || !utf8.ValidString(text) {
			t.Fatalf("row %d: %q", i, text)
		}
		if !id.MatchString(f[0]) || seen[f[0]] {
			t.Fatalf("row %d: id %s", i, f[0])
		}
		seen[f[0]] = true
		if f[3] == `\N` {
			f[3] = ""
			null++
		}
		line := g.AppendCSV(nil, i)
		quoted += bytes.Count(line, []byte{'"'}) / 2
		c, err := stdcsv.NewReader(bytes.NewReader(line)).Read()
		if err != nil || strings.Join(c, "\t") != strings.Join(f, "\t") {
			t.Fatalf("row %d: CSV %q (%v), text %q", i, c, err, f)
		}
		var obj map[string]any
		dec := json.NewDecoder(bytes.NewReader(g.AppendJSON(nil, i)))
		dec.UseNumber()
		if err := dec.Decode(&obj); err != nil || len(obj) != len(f) {
			t.Fatalf("row %d: %v, %v", i, obj, err)
		}
		for k, name := range PeopleColumns {
			if v := obj[name]; v == nil && (k != 3 || f[k] != "") || v != nil && fmt.Sprint(v) != f[k] {
				t.Fatalf("row %d: %s is %v in JSON, %q in text", i, name, v, f[k])
			}
		}
		if utf8.RuneCountInString(text) != len(text) {
			multibyte++
		}
		for _, layout := range []struct{ layout, text string }{{time.DateOnly, f[5]}, {time.RFC3339, f[7]}} {
			if _, err := time.Parse(layout.layout, layout.text); err != nil {
				t.Fatal(err)
			}
		}
	}
	if avg := float64(bytesOf) / n; avg < 95 || avg > 115 {
		t.Errorf("%.1f bytes a row, want about 106", avg)
	}
	if multibyte < n/10 || quoted < n/2000 || null < n/2 || null > n*7/10 {
		t.Errorf("%d rows with letters of several bytes, %d quoted fields, %d NULLs of %d", multibyte, quoted, null, n)
	}
}

func TestDatesAreTheCalendar(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.Int64Range(-2_208_988_800, 4_102_444_800).Draw(t, "seconds")
		s -= s % 86_400
		if got, want := string(appendDate(nil, s/86_400)), time.Unix(s, 0).UTC().Format(time.DateOnly); got != want {
			t.Fatalf("%d: %s, want %s", s, got, want)
		}
		s = max(s, 0) + rapid.Int64Range(0, 86_399).Draw(t, "of the day")
		if got, want := string(appendTime(nil, s)), time.Unix(s, 0).UTC().Format(time.RFC3339); got != want {
			t.Fatalf("%d: %s, want %s", s, got, want)
		}
	})
}

func TestBadRowsAreAsManyAsAsked(t *testing.T) {
	g, good := People(11).WithBad(0.02), People(11)
	bad := map[string]int{}
	const n = 100_000
	for i := range int64(n) {
		why := g.BadReason(i)
		if g.IsBad(i) != (why != "") {
			t.Fatal(i, why)
		}
		bad[why]++
		if (why == "") != bytes.Equal(g.AppendTSV(nil, i), good.AppendTSV(nil, i)) ||
			(why == "") != bytes.Equal(g.AppendCSV(nil, i), good.AppendCSV(nil, i)) ||
			(why == "") != bytes.Equal(g.AppendJSON(nil, i), good.AppendJSON(nil, i)) {
			t.Fatalf("row %d (%s): %q", i, why, g.AppendTSV(nil, i))
		}
	}
	if got := n - bad[""]; got < n/50*8/10 || got > n/50*12/10 || len(bad) != badKinds+1 {
		t.Errorf("%d of %d are bad: %v", got, n, bad)
	}
}

func TestDocumentsHaveTheirSize(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed, key, seq := rapid.Uint64().Draw(t, "seed"), rapid.Int64Min(0).Draw(t, "key"), rapid.Int64Range(0, 9).Draw(t, "seq")
		size := rapid.IntRange(MinDocument, 20_000).Draw(t, "size")
		b := Reading([]byte("before"), seed, key, seq, size)[len("before"):]
		var v struct {
			ID int64
			TS time.Time
		}
		if err := json.Unmarshal(b, &v); err != nil || v.ID != key || len(b) != size {
			t.Fatalf("%d bytes, want %d; %v, id %d: %s", len(b), size, err, v.ID, b)
		}
		if bytes.Equal(b, Reading(nil, seed, key, seq+1, size)) {
			t.Fatal("the next version is the same")
		}
	})
	if got := len(Document(nil, 1, math.MaxInt64, 1)); got > MinDocument {
		t.Errorf("the shortest document has %d bytes, want at most %d", got, MinDocument)
	}
}

func TestKeysAreSpreadAsAsked(t *testing.T) {
	const n, draws = 1000, 200_000
	for name, k := range map[string]*Keys{"uniform": Uniform(n, 5), "zipf": Zipf(n, 1.2, 5)} {
		seen := make([]int, n)
		for i := range int64(draws) {
			seen[k.At(i)]++
		}
		top, used := 0, 0
		for _, c := range seen {
			top = max(top, c)
			used += min(c, 1)
		}
		if name == "uniform" && (top > 300 || used < n) {
			t.Errorf("uniform: the most common of %d keys got %d of %d draws, %d keys used", n, top, draws, used)
		}
		// 1 / sum of r^-1.2 for r to 1000 is 0.227.
		if share := float64(top) / draws; name == "zipf" && (share < 0.20 || share > 0.26 || used < n*9/10) {
			t.Errorf("zipf: the most common key got %.3f of the draws, %d keys used", share, used)
		}
		if a, b := k.At(99), k.At(7); a != k.At(99) || b != k.At(7) {
			t.Errorf("%s: a draw depends on those before it", name)
		}
	}
	if k := Zipf(1, 1.2, 1).At(3); k != 0 {
		t.Errorf("the only key is %d", k)
	}
}

func BenchmarkPeople(b *testing.B) {
	g := People(1)
	for name, add := range map[string]func([]byte, int64) []byte{"tsv": g.AppendTSV, "csv": g.AppendCSV, "json": g.AppendJSON} {
		b.Run(name, func(b *testing.B) {
			var buf []byte
			for i := range int64(b.N) {
				buf = add(buf[:0], i)
				b.SetBytes(int64(len(buf)))
			}
		})
	}
}

func BenchmarkDocument(b *testing.B) {
	for _, size := range []int{130, 1000, 100_000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			var buf []byte
			b.SetBytes(int64(size))
			for i := range int64(b.N) {
				buf = Document(buf[:0], 1, i, size)
			}
		})
	}
}
