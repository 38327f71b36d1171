package pglocal

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

var settingName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?$`)

// confLines writes settings as postgresql.conf has them, sorted by name. Any
// value is quoted; what it means is for the server to say.
func confLines(settings map[string]string) (string, error) {
	var b strings.Builder
	quote := strings.NewReplacer(`\`, `\\`, `'`, `''`, "\n", `\n`, "\r", `\r`)
	b.WriteString("\n# given at start\n")
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		if !settingName.MatchString(name) {
			return "", fmt.Errorf("write setting %q: not a setting's name", name)
		}
		fmt.Fprintf(&b, "%s = '%s'\n", name, quote.Replace(settings[name]))
	}
	return b.String(), nil
}
