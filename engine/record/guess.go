package record

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"
)

// Guess says how input is most likely written: by its name (.csv, .tsv, .txt,
// .ndjson, .jsonl, .json, with or without .gz, .zst), else by its first
// decompressed bytes. A header is seen only where the first line has nothing
// but names and the second is of another kind.
func Guess(name string, head []byte) Options {
	head = bytes.TrimPrefix(head, []byte("\xef\xbb\xbf"))
	o, known := guessName(name)
	if !known {
		o = guessContent(head)
	}
	if o.Format == NDJSON {
		return o
	}
	line, _, _ := bytes.Cut(head, []byte("\n"))
	if o.Format == CSV {
		o.Delimiter = commonest(line, ",;\t|")
	}
	o.Header = guessHeader(o, head)
	return o
}

func guessName(name string) (o Options, known bool) {
	name = strings.ToLower(filepath.Base(name))
	for _, z := range []string{".gz", ".zst", ".zstd", ".gzip"} {
		name = strings.TrimSuffix(name, z)
	}
	switch filepath.Ext(name) {
	case ".csv":
		return Options{Format: CSV}, true
	case ".tsv", ".tab":
		return Options{Format: TSV}, true
	case ".txt", ".copy":
		return Options{Format: Text}, true
	case ".ndjson", ".jsonl", ".json":
		return Options{Format: NDJSON}, true
	}
	return o, false
}

func guessContent(head []byte) Options {
	switch first := bytes.TrimLeft(head, " \t\r\n"); {
	case len(first) == 0, first[0] == '{', first[0] == '[':
		return Options{Format: NDJSON}
	}
	line, _, _ := bytes.Cut(head, []byte("\n"))
	if bytes.IndexByte(line, '\t') >= 0 {
		return Options{Format: TSV}
	}
	return Options{Format: CSV}
}

// commonest is the character of set that the line holds most of, the first of
// them if equal.
func commonest(line []byte, set string) byte {
	best, most := set[0], bytes.Count(line, []byte(set[:1]))
	for i := 1; i < len(set); i++ {
		if n := bytes.Count(line, []byte(set[i:i+1])); n > most {
			best, most = set[i], n
		}
	}
	return best
}

func guessHeader(o Options, head []byte) bool {
	r := NewReader(bytes.NewReader(head), o)
	first, err := r.Next()
	if err != nil {
		return false
	}
	var names []string
	for _, f := range first.Fields {
		if !isName(f) || slices.Contains(names, string(f)) {
			return false
		}
		names = append(names, string(f))
	}
	second, err := r.Next()
	if err != nil {
		return false
	}
	return slices.ContainsFunc(second.Fields, func(f []byte) bool { return f != nil && !isName(f) })
}

// isName says whether a field could be a column's name in a header.
func isName(f []byte) bool {
	if len(f) == 0 || len(f) > 63 {
		return false
	}
	for i, c := range f {
		letter := c|0x20 >= 'a' && c|0x20 <= 'z' || c == '_' || c >= 0x80
		if !letter && (i == 0 || !(c >= '0' && c <= '9' || c == ' ' || c == '-')) {
			return false
		}
	}
	// A UUID or a hash that happens to begin with a letter is no name.
	hex := len(f) >= 32 && bytes.IndexFunc(f, func(r rune) bool { return r != '-' && (r >= 0x80 || hexDigit(byte(r)) < 0) }) < 0
	return !hex
}
