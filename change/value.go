package change

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"headroom/fail"
	"headroom/host"
)

// Value is what a pseudo file of /sys or /proc holds. It lasts until the next
// boot; a File step beside it (udev rule, sysctl.d) makes it stay.
//
// Values are compared in a normal form: of `[mq-deadline] none` the chosen
// word, words parted by one blank, whole numbers in decimal, Y and N as 1 and 0.
type Value struct {
	Path  string `json:"path"`
	Value string `json:"value"`
	// Instead names the pseudo file that sets the same thing in another way,
	// where the kernel keeps only one of the two and shows 0 in the other
	// (vm.dirty_bytes and vm.dirty_ratio): undoing may have to write there.
	Instead string `json:"instead,omitempty"`
}

// Kind implements Step.
func (Value) Kind() string { return "value" }

// Object implements Step.
func (v Value) Object() string { return v.Path }

// Effects implements Step.
func (Value) Effects() []string { return nil }

func (v Value) String() string { return fmt.Sprintf("write %s into %s", v.Value, v.Path) }

// Read implements Step.
func (v Value) Read(_ context.Context, r host.Reader) (State, error) {
	b, err := r.ReadFile(v.Path)
	if err != nil {
		return State{}, err
	}
	s := State{Present: true, Value: chosen(string(b))}
	if v.Instead != "" {
		b, err := r.ReadFile(v.Instead)
		if err != nil {
			return State{}, err
		}
		s.Stored = map[string]string{v.Instead: chosen(string(b))}
	}
	return s, nil
}

// Want implements Step.
func (v Value) Want(_ context.Context, r host.Reader, before State) (State, error) {
	b, err := r.ReadFile(v.Path)
	if err != nil {
		return State{}, err
	}
	want := State{Present: true, Value: normal(v.Value)}
	if all := choices(string(b)); all != nil && !slices.Contains(all, want.Value) {
		return State{}, fail.With(fmt.Errorf("plan %s: no such choice %q (there are: %s)",
			v.Path, v.Value, strings.Join(all, ", ")), fail.Usage)
	}
	if want.Value == before.Value {
		return before, nil
	}
	if v.Instead != "" {
		want.Stored = map[string]string{v.Instead: "0"}
	}
	return want, nil
}

// Undo implements Step.
func (v Value) Undo(before State) Step {
	if was := before.Stored[v.Instead]; before.Value == "0" && was != "" && was != "0" {
		return Value{Path: v.Instead, Value: was, Instead: v.Path}
	}
	return Value{Path: v.Path, Value: before.Value, Instead: v.Instead}
}

// Apply implements Step.
func (v Value) Apply(_ context.Context, w host.Writer) error {
	err := w.WriteValue(v.Path, v.Value)
	if errors.Is(err, fail.ErrDenied) {
		return fail.Hint(err, "run as root; inside a container /sys and /proc/sys may be read-only altogether")
	}
	return err
}

// words splits a pseudo file's content; chosen at is the index of the word in
// brackets, or -1 if there is not exactly one.
func words(content string) (all []string, at int) {
	at = -1
	many := false
	for i, w := range strings.Fields(content) {
		if len(w) > 2 && w[0] == '[' && w[len(w)-1] == ']' {
			many = many || at >= 0
			at, w = i, w[1:len(w)-1]
		}
		all = append(all, w)
	}
	if many {
		return strings.Fields(content), -1
	}
	return all, at
}

// choices lists the words that can be chosen; nil if the file is no choice.
func choices(content string) []string {
	all, at := words(content)
	if at < 0 {
		return nil
	}
	return all
}

// chosen is the normal form of what a pseudo file reads.
func chosen(content string) string {
	all, at := words(content)
	if at >= 0 {
		return all[at]
	}
	return normal(content)
}

func normal(value string) string {
	fields := strings.Fields(value)
	for i, f := range fields {
		fields[i] = number(f)
	}
	return strings.Join(fields, " ")
}

var flags = map[string]string{"Y": "1", "N": "0", "y": "1", "n": "0"}

// number writes a whole number in decimal and leaves any other word alone.
func number(word string) string {
	if f, ok := flags[word]; ok {
		return f
	}
	if hex, ok := strings.CutPrefix(strings.ToLower(word), "0x"); ok {
		if n, err := strconv.ParseUint(hex, 16, 64); err == nil {
			return strconv.FormatUint(n, 10)
		}
		return word
	}
	if n, err := strconv.ParseInt(word, 10, 64); err == nil {
		return strconv.FormatInt(n, 10)
	}
	return word
}

// sortedKeys lists a map's names in order.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
