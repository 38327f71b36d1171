package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"headroom/pglocal"
	"headroom/testkit/need"
)

// documents that the server and ValidJSON must agree on.
func documents() []string {
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	docs := []string{
		``, ` `, `{}`, `[]`, `null`, `nul`, `nulls`, `true`, `truefalse`, `1`, `"a"`, `{"a":1}`, `{"a":1,}`, `{"a":1 "b":2}`, `[1,]`, `[,1]`, `[1 2]`, `{"a"}`, `{a:1}`, `{'a':1}`,
		`{"a":1}}`, `{"a":1} x`, `[1}`, `{"a":[1,{"b":2}],"c":{}}`, "{\"a\":\n\t1 }\r", `{"a":1,"a":2}`, `01`, `-`, `-0`, `+1`, `1.`, `.5`, `1.5`, `1e`, `1e5`, `1E+5`, `1e-5`, `-1.5e10`, `1e5.5`, `0x10`, `1_000`, `NaN`, `Infinity`, `-Infinity`,
		`1e400`, `1e131071`, `1e131072`, `9e131071`, `12e131071`, `0.1e131072`, `0.1e131073`, `0.01e131073`, `0e999999`, `0.0e131080`, `1e-16383`, `1e-16384`, `1.5e-16382`, `1.5e-16383`, `0e-16384`, `1e1000000000`, `1e99999999999999999999`, `1e-99999999999999999999`, `0e-99999999999`,
		`"\u0041"`, `"\u00"`, `"\u000g"`, `"\u0000"`, `"a\u0000b"`, `"\\u0000"`, `"\ud83d\ude00"`, `"\ud83d"`, `"\ude00"`, `"\ud83d\u0041"`, `"\ud83dx"`, `"\ud83d\ud83d"`, `"\q"`, `"\`, `"a`, "\"a\nb\"", "\"a\tb\"", "\"\x7f\"", `"\/\b\f\n\r\t\"\\"`,
		"\"\xff\"", "\"\xc3\x28\"", "\"é\"", "\"\xed\xa0\x80\"", "\"\xf4\x90\x80\x80\"", "\"\xc0\x80\"", "é", "\xef\xbb\xbf{}", "{\"a\":1}\x00", "\"a\x00\"", "\u00a01", `{"\u0000":1}`, `{"é":"ü"}`,
		deep(100), deep(4000), deep(maxDepth), strings.Repeat("[", 1000), strings.Repeat(`{"a":`, 2000) + "1" + strings.Repeat("}", 2000), deep(10)[:19],
		"0." + strings.Repeat("0", 16383), "0." + strings.Repeat("0", 16384), strings.Repeat("9", 131072), strings.Repeat("9", 131073), strings.Repeat("9", 131072) + ".5",
	}
	return docs
}

func TestValidJSONAgreesWithTheServer(t *testing.T) {
	need.Have(t, "pg")
	s, err := pglocal.Start(t.Context(), pglocal.Options{Name: "record"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Stop() })
	conn, err := pgx.Connect(t.Context(), s.DSN())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	for _, d := range documents() {
		r := conn.PgConn().ExecParams(t.Context(), "select $1::text::jsonb", [][]byte{[]byte(d)}, nil, nil, nil).Read()
		var pe *pgconn.PgError
		if r.Err != nil && !errors.As(r.Err, &pe) {
			t.Fatal(r.Err)
		}
		ours := ValidJSON([]byte(d))
		if (ours == nil) != (r.Err == nil) {
			t.Errorf("%.60q: we say %v, the server %v", d, ours, r.Err)
		}
	}
	if ValidJSON([]byte(strings.Repeat("[", maxDepth+1)+strings.Repeat("]", maxDepth+1))) == nil {
		t.Error("no limit of depth")
	}
}

func TestValidJSONSaysWhere(t *testing.T) {
	for doc, want := range map[string]string{
		`{"a":"x\u0000y"}`:  `NUL in text (\u0000) at byte 7`,
		`{"a":1e400000}`:    "number out of range at byte 5",
		`{"a":1} {"b":2}`:   "not JSON: more behind the end of the value at byte 8",
		"{\"a\":\"\xff\"}":  "not JSON: not valid UTF-8 at byte 6",
		`{"a":"\ud83d"}`:    "half of a surrogate pair alone at byte 6",
		`{"a" 1}`:           `not JSON: '1' where a colon should stand at byte 5`,
		`{"a":`:             "not JSON: it ends where a value should follow at byte 5",
		"{\"a\":\"x\x00\"}": "NUL in text at byte 7",
		`{"a":"b`:           "not JSON: it ends inside a string at byte 7",
		"{\"a\":\"x\ny\"}":  "not JSON: a control character (0x0a) that is not escaped at byte 7",
		`{"a":[1,2}`:        "not JSON: '}' where a comma or ] should stand at byte 9",
		`hello`:             "not JSON: 'h' where a value should stand at byte 0",
		`{"a":01}`:          "not JSON: a number with a leading zero at byte 7",
	} {
		if got := fmt.Sprint(ValidJSON([]byte(doc))); got != want {
			t.Errorf("%q: %s\nwant %s", doc, got, want)
		}
	}
}

func TestPath(t *testing.T) {
	doc := `{"id": 7, "a.b": 1, "q\"": 2, "meta": {"id": "x\u00e9\ud83d\ude00\n", "n": null, "t": true, "big": 12345678901234567890.50}, "tags": ["u", {"v": [1, 2]}], "id": 8, "esc\u0061pe": 3, "o": {}, "": 4}`
	for path, want := range map[string]string{
		"id": "a number 8", "meta.id": "a text xé😀\n", "meta.n": "null ", "meta.t": "true or false true", "meta.big": "a number 12345678901234567890.50",
		"tags[0]": "a text u", "tags[1].v[1]": "a number 2", "tags[2]": "missing ", "meta.none": "missing ", "id.x": "missing ", "tags.x": "missing ", "meta[0]": "missing ",
		`"a.b"`: "a number 1", `"q"""`: "a number 2", "escape": "a number 3", "o": "an object {}", "tags": `a list ["u", {"v": [1, 2]}]`, `""`: "a number 4",
	} {
		p, err := ParsePath(path)
		if err != nil {
			t.Fatal(path, err)
		}
		text, kind, err := p.Get([]byte(doc))
		if got := fmt.Sprintf("%s %s", kind, text); err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", path, got, err, want)
		}
	}
	for _, path := range []string{"", ".", "a.", "a..b", "[", "a[", "a[x]", "a[-1]", `"a`, "a b", "a]", `a"b"`, "a[99999999999]"} {
		if p, err := ParsePath(path); err == nil {
			t.Errorf("path %q is taken as %v", path, p.steps)
		}
	}
	if text, kind, err := PathOf(`a."b`).Get([]byte(`{"a.\"b":"hit"}`)); err != nil || kind != String || string(text) != "hit" {
		t.Error(string(text), kind, err)
	}
	if PathOf(`a"b`).String() != `"a""b"` {
		t.Error(PathOf(`a"b`))
	}
}

// For valid documents ValidJSON and encoding/json agree, but for what jsonb
// refuses besides; and a path gives what encoding/json gives.
func FuzzJSON(f *testing.F) {
	for _, d := range documents() {
		if len(d) < 1000 {
			f.Add([]byte(d), "a")
		}
	}
	f.Add([]byte(`{"a":{"b":[1,"\ud83d\ude00"]}}`), "a.b[1]")
	f.Fuzz(func(t *testing.T, doc []byte, path string) {
		err := ValidJSON(doc)
		if err == nil && !json.Valid(doc) {
			t.Fatalf("%q is taken", doc)
		}
		if err != nil {
			var e *JSONError
			if !errors.As(err, &e) || e.Offset < 0 || e.Offset > len(doc) {
				t.Fatalf("%q: %v at %d", doc, err, e.Offset)
			}
		}
		p, perr := ParsePath(path)
		if perr != nil {
			return
		}
		text, kind, gerr := p.Get(doc)
		if err != nil {
			return
		}
		if gerr != nil {
			t.Fatalf("%q is valid, but: %v", doc, gerr)
		}
		want, ok := walk(t, doc, p)
		if !ok {
			if kind != Missing {
				t.Fatalf("%s of %q is %s %q, should be missing", path, doc, kind, text)
			}
			return
		}
		if s, isText := want.(string); isText && (kind != String || s != string(text)) {
			t.Fatalf("%s of %q is %s %q, should be %q", path, doc, kind, text, s)
		}
		if n, isNumber := want.(json.Number); isNumber && (kind != Number || n.String() != string(text)) {
			t.Fatalf("%s of %q is %s %q, should be %s", path, doc, kind, text, n)
		}
	})
}

// walk follows a path in what encoding/json makes of a document.
func walk(t *testing.T, doc []byte, p Path) (any, bool) {
	d := json.NewDecoder(strings.NewReader(string(doc)))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%q: %v", doc, err)
	}
	for _, s := range p.steps {
		switch x := v.(type) {
		case map[string]any:
			next, ok := x[s.name]
			if s.index >= 0 || !ok {
				return nil, false
			}
			v = next
		case []any:
			if s.index < 0 || s.index >= len(x) {
				return nil, false
			}
			v = x[s.index]
		default:
			return nil, false
		}
	}
	return v, true
}

func BenchmarkDocument(b *testing.B) {
	doc := []byte(`{"id":123456,"ts":"2026-11-21T10:11:12Z","host":"web-17.example.net","bytes":4711,"tags":["a","b"],"ok":true,"v":1.25}`)
	p, _ := ParsePath("id")
	b.SetBytes(int64(len(doc)))
	for b.Loop() {
		if ValidJSON(doc) != nil {
			b.Fatal()
		}
		if _, _, err := p.Get(doc); err != nil {
			b.Fatal(err)
		}
	}
}
