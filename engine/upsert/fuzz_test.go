package upsert

import (
	"bytes"
	"encoding/json"
	"testing"
)

// Whatever the text: no crash, and a value's bytes have the type's size.
func FuzzKeyCodecs(f *testing.F) {
	for _, s := range []string{"1", "-0", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "2024-03-31T01:30:00.5+02:00", "0044-03-15 BC", "08:00:2b:01:02:03", `\x61`, `\\\141`, "1e-5", "9.995", "t", "infinity"} {
		f.Add([]byte(s))
	}
	size := map[string]int{"int2": 2, "int4": 4, "int8": 8, "uuid": 16, "macaddr": 6, "bool": 1, "date": 4, "timestamp": 8, "timestamptz": 8, "float4": 4, "float8": 8}
	bases := []string{"int2", "int4", "int8", "uuid", "macaddr", "bool", "date", "timestamp", "timestamptz", "float4", "float8", "numeric", "bytea", "text", "varchar", "bpchar"}
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, b := range bases {
			for _, mod := range []int32{-1, 4 + 3, 4 + (5<<16 | 2), 4 + (3<<16 | 0x7fe), 2} {
				c := Column{schema: "pg_catalog", base: b, mod: mod, deterministic: true}
				k := newColumn(c, keyCodec(c), "UTC")
				got, ok := k.appendKey(nil, text, false)
				if n := size[b]; ok && n > 0 && len(got) != n {
					t.Fatalf("%s %q: %d bytes", b, text, len(got))
				}
			}
		}
	})
}

// Documents that are merged in memory are valid and keep the last value of
// each name; nothing that is not plain JSON is merged.
func FuzzMergeDocs(f *testing.F) {
	f.Add([]byte(`{"a":1}`), []byte(`{"a":{"b":[1,"}"]}, "\u0061" : 2 }`))
	f.Add([]byte(`{}`), []byte(`{"x":"\\","hits":1.5}`))
	f.Add([]byte(`{"hits":1e3}`), []byte(` {"hits":-2,"hits":7}`))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		got, ok := mergeDocs([][]byte{append([]byte{1}, a...), nil, append([]byte{1}, b...)}, nil)
		if !ok {
			return
		}
		var first, second, merged map[string]json.RawMessage
		if json.Unmarshal(a, &first) != nil || json.Unmarshal(b, &second) != nil {
			t.Fatalf("merged although not JSON: %q %q", a, b)
		}
		if err := json.Unmarshal(got[1:], &merged); err != nil {
			t.Fatalf("%q: %v", got, err)
		}
		for k, v := range second {
			first[k] = v
		}
		if len(first) != len(merged) {
			t.Fatalf("%q + %q = %q", a, b, got)
		}
		for k, v := range first {
			if !bytes.Equal(v, merged[k]) {
				t.Fatalf("%q + %q = %q", a, b, got)
			}
		}
	})
}

// A document that is made ready for adding is JSON with a number in the field.
func FuzzWithFields(f *testing.F) {
	f.Add([]byte(`{"hits":1}`), "hits")
	f.Add([]byte(`{ }`), `a"b\`)
	f.Add([]byte(`{"hits":null,"x":[]} `), "hits")
	f.Fuzz(func(t *testing.T, doc []byte, field string) {
		out, err := withFields(doc, []string{field})
		if err != nil {
			return
		}
		var m map[string]json.RawMessage
		if err := json.Unmarshal(out, &m); err != nil {
			t.Fatalf("%q: %v", out, err)
		}
		if v, ok := m[string(unquote([]byte(mustJSON(field))))]; !ok || len(v) == 0 || v[0] != '-' && (v[0] < '0' || v[0] > '9') {
			t.Fatalf("%q has no number in %q", out, field)
		}
	})
}

func mustJSON(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

// Sums are exact and written as PostgreSQL adds: the largest scale of any.
func TestSum(t *testing.T) {
	for want, in := range map[string][]string{
		"3":                    {"1", "2"},
		"3.00":                 {"1.5", "1.50"},
		"18446744073709551614": {"9223372036854775807", "9223372036854775807"},
		"-9223372036854775809": {"-9223372036854775808", "-1"},
		"1000.5":               {"1e3", "5e-1"},
		"0.00":                 {"0.00", "-0"},
		"-0.05":                {"0.05", "-0.1"},
		"0":                    {},
		"123":                  {"0123"},
	} {
		var s sum
		for _, v := range in {
			if !s.add([]byte(v)) {
				t.Errorf("%s is not taken", v)
			}
		}
		if got := string(s.append(nil)); got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
	var s sum
	for _, bad := range []string{"", "-", "x", "1e", "1e99999", "NaN", ".", "1.2.3", "0x1"} {
		if s.add([]byte(bad)) {
			t.Errorf("%q is taken", bad)
		}
	}
}
