package pglocal

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

var settingName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?$`)

// reserved are the settings that this package needs to find and own a server.
var reserved = []string{"unix_socket_directories", "listen_addresses", "port", "cluster_name", "data_directory", "hba_file"}

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
		if slices.Contains(reserved, strings.ToLower(name)) {
			return "", fmt.Errorf("write setting %s: a private server chooses it itself", name)
		}
		fmt.Fprintf(&b, "%s = '%s'\n", name, quote.Replace(settings[name]))
	}
	return b.String(), nil
}
