package peer

import (
	"flag"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write testdata anew")

// A field more or less makes a document that the Headroom of another host
// refuses: it needs a new Version, or the field must not travel.
func TestFieldsBelongToAVersion(t *testing.T) {
	const file = "testdata/version1.txt"
	got := strings.Join(fields("", reflect.TypeFor[Document](), nil), "\n") + "\n"
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if Version != 1 || got != string(want) {
		t.Errorf("the fields of a document are not those of version %d in %s: raise Version, or before the first release: go test ./peer -update\n%s", Version, file, got)
	}
}

// fields lists the names of all fields that travel.
func fields(path string, t reflect.Type, in []reflect.Type) (out []string) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || t == timeType || slices.Contains(in, t) {
		return []string{path + " " + t.Kind().String()}
	}
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name != "-" && f.IsExported() {
			out = append(out, fields(join(path, name), f.Type, append(in, t))...)
		}
	}
	return out
}
