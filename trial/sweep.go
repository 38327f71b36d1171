package trial

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"headroom/change"
	"headroom/fail"
)

// Sweep makes one arm for each value of one argument: with the id
// "postgres.setting", "shared_buffers=128MB,1GB,4GB" makes three. Values that
// hold commas cannot be swept. The base is not among the arms.
func Sweep(id, object, text string) ([]Arm, error) {
	name, list, ok := strings.Cut(text, "=")
	values := strings.Split(list, ",")
	if !ok || name == "" || slices.Contains(values, "") {
		return nil, fail.With(fail.Hint(fmt.Errorf("read sweep %q: not NAME=VALUE,VALUE…", text),
			"for example: --sweep shared_buffers=128MB,1GB,4GB"), fail.Usage)
	}
	var arms []Arm
	for i, v := range values {
		if slices.Contains(values[:i], v) {
			return nil, fail.With(fmt.Errorf("read sweep %q: %s is given twice", text, v), fail.Usage)
		}
		arms = append(arms, ArmOf(change.Spec{ID: id, Object: object, Args: map[string]string{name: v}}))
	}
	return arms, nil
}

// short is a change without its id: "max_wal_size=10GB", "vda rotational=0".
func short(s change.Spec) string {
	words := []string{}
	if s.Object != "" {
		words = append(words, s.Object)
	}
	for _, n := range slices.Sorted(maps.Keys(s.Args)) {
		words = append(words, n+"="+s.Args[n])
	}
	if len(words) == 0 {
		return s.ID
	}
	return strings.Join(words, " ")
}
