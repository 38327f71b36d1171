package report

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"headroom/fact"
	"headroom/topic"
)

// factsPage lists every fact with the unit, origin and meaning of its fields,
// from the tags of its type.
func factsPage(topics []topic.Topic) string {
	var b strings.Builder
	b.WriteString(generated + "# Facts\n\nWhat `headroom facts` reads. Each field has its unit and its origin. A field that could not be told says why.\n")
	seen := map[string]bool{}
	for _, src := range allFacts(topics) {
		if seen[src.Key()] {
			continue
		}
		seen[src.Key()] = true
		fmt.Fprintf(&b, "\n## %s\n\n%s", md(src.Key()), prose(src.About()))
		if src.IsProbe() {
			b.WriteString(" (measured; left out with `--no-probe`)")
		}
		var rows []string
		declare(reflect.TypeOf(src.Zero()), "", func(path string, tag reflect.StructTag) {
			rows = append(rows, fmt.Sprintf("| %s | %s | %s | %s |\n", md(path), md(tag.Get("unit")), md(tag.Get("src")), prose(tag.Get("doc"))))
		})
		b.WriteString("\n")
		if len(rows) > 0 {
			b.WriteString("\n| field | unit | source | what it is |\n| --- | --- | --- | --- |\n" + strings.Join(rows, ""))
		}
	}
	return b.String()
}

// allFacts lists the topics' facts and those that their checks and recipes need.
func allFacts(topics []topic.Topic) []fact.Any {
	var out []fact.Any
	for _, t := range topics {
		out = append(out, t.Facts...)
		for _, c := range t.Checks {
			out = append(out, c.Needs...)
		}
		for _, r := range t.Recipes {
			out = append(out, r.Needs...)
		}
	}
	return out
}

// declare calls field for each figure or word that a type declares.
func declare(t reflect.Type, path string, field func(path string, tag reflect.StructTag)) {
	switch t.Kind() {
	case reflect.Pointer:
		declare(t.Elem(), path, field)
	case reflect.Slice, reflect.Array:
		declare(t.Elem(), join(path, "[]"), field)
	case reflect.Map:
		declare(t.Elem(), join(path, "{}"), field)
	case reflect.Struct:
		for i := range t.NumField() {
			sf := t.Field(i)
			name, _, _ := strings.Cut(sf.Tag.Get("json"), ",")
			if !sf.IsExported() || name == "-" {
				continue
			}
			at := path
			if !sf.Anonymous || name != "" {
				at = join(path, orElse(name, sf.Name))
			}
			if composite(sf.Type) {
				declare(sf.Type, at, field)
			} else {
				field(at, sf.Tag)
			}
		}
	}
}

// composite says whether a type has fields of its own; a fact.Opt, a time and
// a list of words have none.
func composite(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return composite(t.Elem())
	case reflect.Struct:
		return !strings.HasPrefix(t.Name(), "Opt[") && t != reflect.TypeFor[time.Time]()
	}
	return false
}
