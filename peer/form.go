package peer

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"headroom/metric"
)

// Bounds of what a document may hold.
const (
	maxText = 8 << 10 // bytes of one text
	maxList = 2000    // of one list
)

// shorter are the lists with a bound of their own.
var shorter = map[string]int{"targets": 256, "inspections": 256, "sessions": 500, "gaps": 4096, "args": 64}

// check says what is wrong with a document that was read, by the field's name.
func (d *Document) check() error {
	if err := d.belongs(); err != nil {
		return err
	}
	if d.Host == "" || len(d.Host) > metric.MaxOrigin {
		return fmt.Errorf("host: want a name of up to %d bytes", metric.MaxOrigin)
	}
	if d.At.IsZero() {
		return fmt.Errorf("at: want the time of telling")
	}
	return walk("", reflect.ValueOf(d).Elem(), func(path, s string) (string, error) {
		if why := fault(s); why != "" {
			return "", fmt.Errorf("%s: %s", path, why)
		}
		return s, nil
	})
}

// belongs refuses fields of other kinds.
func (d *Document) belongs() error {
	has := map[Kind]bool{Targets: len(d.Targets) > 0, Gaps: len(d.Gaps) > 0, Findings: len(d.Inspections) > 0,
		Sessions: len(d.Sessions) > 0 || d.Server != "" || d.Why != ""}
	if _, known := has[d.Kind]; !known {
		return fmt.Errorf("kind: %.40q is not known", d.Kind)
	}
	for _, k := range []Kind{Targets, Gaps, Findings, Sessions} {
		if k != d.Kind && has[k] {
			return fmt.Errorf("%s: not part of a document of kind %q", k, d.Kind)
		}
	}
	if d.Kind == Sessions && d.Server == "" {
		return fmt.Errorf("server: want the server that the sessions are of")
	}
	return nil
}

// mend makes all text plain and all evidence single values.
func (d *Document) mend() error {
	for i := range d.Inspections {
		o := &d.Inspections[i].Outcome
		for _, f := range slices.Concat(o.Findings, o.Quieted) {
			for k := range f.Evidence {
				if c := &f.Evidence[k]; !single(c.Value) {
					c.Value = fmt.Sprint(c.Value)
				}
			}
		}
	}
	return walk("", reflect.ValueOf(d).Elem(), func(_, s string) (string, error) { return plain(s), nil })
}

func single(v any) bool {
	switch v.(type) {
	case nil, string, float64, bool:
		return true
	}
	return false
}

// fault is why a text is not taken; "" if it is.
func fault(s string) string {
	switch {
	case len(s) > maxText:
		return fmt.Sprintf("text of %d bytes, at most %d are taken", len(s), maxText)
	case !utf8.ValidString(s):
		return "not valid UTF-8"
	case strings.ContainsFunc(s, unprintable):
		return "text with control characters"
	}
	return ""
}

// unprintable are characters that would act on a terminal, or turn the text
// around them.
func unprintable(r rune) bool {
	return unicode.IsControl(r) && r != '\n' && r != '\t' || unicode.Is(unicode.Bidi_Control, r)
}

// plain is a text as fault takes it.
func plain(s string) string {
	s = strings.Map(func(r rune) rune {
		if unprintable(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
	if len(s) <= maxText {
		return s
	}
	const more = " …"
	cut := maxText - len(more)
	for !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + more
}

var timeType = reflect.TypeFor[time.Time]()

// walk visits all text of a value and puts what visit returns in its place;
// lists and numbers are held against their bounds.
func walk(path string, v reflect.Value, visit func(path, s string) (string, error)) error {
	if v.Type() == timeType {
		return nil
	}
	switch v.Kind() {
	case reflect.String:
		s, err := visit(path, v.String())
		if err == nil && s != v.String() {
			v.SetString(s)
		}
		return err
	case reflect.Float64:
		if f := v.Float(); math.IsNaN(f) || math.IsInf(f, 0) {
			return fmt.Errorf("%s: not a number", path)
		}
	case reflect.Pointer:
		if !v.IsNil() {
			return walk(path, v.Elem(), visit)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name == "-" || !f.IsExported() {
				continue
			}
			if err := walk(join(path, name), v.Field(i), visit); err != nil {
				return err
			}
		}
	case reflect.Slice:
		if err := bounded(path, v.Len()); err != nil {
			return err
		}
		for i := range v.Len() {
			if err := walk(fmt.Sprintf("%s[%d]", path, i), v.Index(i), visit); err != nil {
				return err
			}
		}
	case reflect.Map:
		return walkMap(path, v, visit)
	case reflect.Interface:
		return walkValue(path, v, visit)
	}
	return nil
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func bounded(path string, n int) error {
	most, ok := shorter[path[strings.LastIndexByte(path, '.')+1:]]
	if !ok {
		most = maxList
	}
	if n > most {
		return fmt.Errorf("%s: a list of %d, at most %d are taken", path, n, most)
	}
	return nil
}

// walkMap is walk for texts by name, the values of a change.
func walkMap(path string, v reflect.Value, visit func(path, s string) (string, error)) error {
	if err := bounded(path, v.Len()); err != nil {
		return err
	}
	for _, k := range v.MapKeys() {
		name, err := visit(path+" (a name)", k.String())
		if err != nil {
			return err
		}
		text, err := visit(join(path, name), v.MapIndex(k).String())
		if err != nil {
			return err
		}
		v.SetMapIndex(k, reflect.Value{})
		v.SetMapIndex(reflect.ValueOf(name), reflect.ValueOf(text))
	}
	return nil
}

// walkValue is walk for evidence, which is one number, text or truth.
func walkValue(path string, v reflect.Value, visit func(path, s string) (string, error)) error {
	if !single(v.Interface()) {
		return fmt.Errorf("%s: want one number, text or truth", path)
	}
	if s, ok := v.Interface().(string); ok {
		s, err := visit(path, s)
		if err == nil {
			v.Set(reflect.ValueOf(s))
		}
		return err
	}
	return nil
}
