package change

import (
	"fmt"
	"strings"

	"headroom/host"
)

// quotedLists are the settings whose elements ALTER SYSTEM wants quoted one
// by one; the server's list is fixed, extensions cannot add to it.
var quotedLists = map[string]bool{
	"local_preload_libraries": true, "search_path": true, "session_preload_libraries": true,
	"shared_preload_libraries": true, "temp_tablespaces": true, "unix_socket_directories": true,
}

// elements splits a list at commas outside of double quotes. ok is false if a
// quote is not closed.
func elements(list string) (out []string, ok bool) {
	var cur strings.Builder
	quoted, inside := false, false
	flush := func() {
		e := cur.String()
		if !quoted {
			e = strings.TrimSpace(e)
		}
		out = append(out, e)
		cur.Reset()
		quoted = false
	}
	for i := 0; i < len(list); i++ {
		switch c := list[i]; {
		case c == '"' && inside && i+1 < len(list) && list[i+1] == '"':
			cur.WriteByte('"')
			i++
		case c == '"':
			if !inside && strings.TrimSpace(cur.String()) == "" {
				cur.Reset()
			}
			quoted, inside = true, !inside
		case c == ',' && !inside:
			flush()
		case quoted && !inside && (c == ' ' || c == '\t'):
		default:
			cur.WriteByte(c)
		}
	}
	flush()
	return out, !inside
}

// listForm writes a list setting in one form, ", " between elements, quotes
// only where needed. Other values stay as they are.
func listForm(name, value string) string {
	if !quotedLists[name] {
		return value
	}
	es, ok := elements(value)
	if !ok {
		return value
	}
	if len(es) == 1 && es[0] == "" {
		return ""
	}
	for i, e := range es {
		if e == "" || strings.ContainsAny(e, `", `+"\t") || e != strings.ToLower(e) {
			es[i] = `"` + strings.ReplaceAll(e, `"`, `""`) + `"`
		}
	}
	return strings.Join(es, ", ")
}

func validList(name, value string) error {
	es, ok := elements(value)
	if !ok {
		return fmt.Errorf("plan setting %s: a double quote is not closed in %q", name, value)
	}
	if len(es) == 1 && es[0] == "" && strings.HasSuffix(name, "_libraries") {
		return fmt.Errorf("plan setting %s: ALTER SYSTEM would store an empty library name, with which the server does not start; reset the setting instead", name)
	}
	return nil
}

// literals writes a value for ALTER SYSTEM SET.
func literals(name, value string) string {
	if !quotedLists[name] {
		return host.Literal(value)
	}
	es, _ := elements(value)
	for i, e := range es {
		es[i] = host.Literal(e)
	}
	return strings.Join(es, ", ")
}
