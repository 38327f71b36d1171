package report

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"headroom/unit"
)

// leaf is one figure or word inside a fact.
type leaf struct {
	list    string // path of the outermost list that it is in; "" if that is the fact itself
	of      string // name of the element in that list; "" outside of lists
	path    string // "queue.read_ahead", within the element; "" if that is one figure
	pretty  string
	bare    string
	unit    unit.Unit
	source  string
	unknown string
	element int // index in the outermost list; 0 if there is none
}

// whole is the path from the fact down.
func (l leaf) whole() string { return join(join(l.list, l.of), l.path) }

// flatten walks a fact down to its figures, by the tags json, unit and src.
// An element of a list is named by its field "name" (or the first text in it),
// else by its number.
func flatten(v any) []leaf {
	f := &flattener{element: -1}
	f.walk(reflect.ValueOf(v), leaf{})
	return f.out
}

type flattener struct {
	out     []leaf
	element int // of the outermost list; -1 outside of it
}

func (f *flattener) walk(v reflect.Value, at leaf) {
	if !v.IsValid() {
		return
	}
	if t, ok := v.Interface().(time.Time); ok {
		f.add(at, moment(t), t.UTC().Format(time.RFC3339Nano))
		return
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		f.walk(v.Elem(), at)
	case reflect.Struct:
		f.fields(v, at)
	case reflect.Slice, reflect.Array:
		f.list(v, at)
	case reflect.Map:
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		for i, k := range keys {
			f.enter(i, v.MapIndex(k), at, fmt.Sprint(k))
		}
	default:
		f.figure(v, at)
	}
}

// fields walks a struct; a fact.Opt is its value or the reason.
func (f *flattener) fields(v reflect.Value, at leaf) {
	if because := v.FieldByName("Because"); because.IsValid() && strings.HasPrefix(v.Type().Name(), "Opt[") {
		if at.unknown = because.String(); at.unknown != "" {
			f.add(at, "", "")
			return
		}
		f.walk(v.FieldByName("Value"), at)
		return
	}
	for i := range v.NumField() {
		sf := v.Type().Field(i)
		if !sf.IsExported() {
			continue
		}
		name, _, _ := strings.Cut(sf.Tag.Get("json"), ",")
		if name == "-" {
			continue
		}
		below := at
		if !sf.Anonymous || name != "" {
			below.path = join(at.path, orElse(name, sf.Name))
		}
		if u := sf.Tag.Get("unit"); u != "" {
			below.unit = unit.Unit(u)
		}
		if s := sf.Tag.Get("src"); s != "" {
			below.source = s
		}
		f.walk(v.Field(i), below)
	}
}

func (f *flattener) list(v reflect.Value, at leaf) {
	if k := v.Type().Elem().Kind(); k == reflect.String || k == reflect.Int || k == reflect.Int64 || k == reflect.Float64 {
		var all []string
		for i := range v.Len() {
			all = append(all, fmt.Sprint(v.Index(i)))
		}
		f.add(at, strings.Join(all, ", "), strings.Join(all, ","))
		return
	}
	for i := range v.Len() {
		f.enter(i, v.Index(i), at, nameOf(v.Index(i), i))
	}
}

// enter walks one element of a list or map.
func (f *flattener) enter(i int, v reflect.Value, at leaf, name string) {
	outermost := f.element < 0
	if outermost {
		f.element = i
		at.list, at.of, at.path = at.path, name, ""
	} else {
		at.path = join(at.path, name)
	}
	f.walk(v, at)
	if outermost {
		f.element = -1
	}
}

func nameOf(v reflect.Value, i int) string {
	if v.Kind() == reflect.Struct {
		if n := v.FieldByName("Name"); n.IsValid() && n.Kind() == reflect.String && n.String() != "" {
			if s := v.FieldByName("Schema"); s.IsValid() && s.Kind() == reflect.String && s.String() != "" {
				return s.String() + "." + n.String()
			}
			return n.String()
		}
		for j := range v.NumField() {
			if n := v.Field(j); n.Kind() == reflect.String && n.String() != "" {
				return n.String()
			}
		}
	}
	return strconv.Itoa(i)
}

func (f *flattener) figure(v reflect.Value, at leaf) {
	switch {
	case v.CanFloat():
		f.add(at, unit.Format(v.Float(), at.unit), bare(v.Float()))
	case v.CanInt():
		f.add(at, unit.Format(float64(v.Int()), at.unit), strconv.FormatInt(v.Int(), 10))
	case v.CanUint():
		f.add(at, unit.Format(float64(v.Uint()), at.unit), strconv.FormatUint(v.Uint(), 10))
	case v.Kind() == reflect.Bool && v.Bool():
		f.add(at, "yes", "true")
	case v.Kind() == reflect.Bool:
		f.add(at, "no", "false")
	default:
		f.add(at, fmt.Sprint(v), fmt.Sprint(v))
	}
}

func (f *flattener) add(at leaf, pretty, bare string) {
	at.pretty, at.bare, at.element = pretty, bare, max(f.element, 0)
	f.out = append(f.out, at)
}

func join(path, name string) string {
	if path == "" || name == "" {
		return path + name
	}
	return path + "." + name
}
