package host

import "strings"

// Literal is a text as an SQL string constant, for statements that take no
// parameters (COPY, SET, COMMENT). It means the same whatever
// standard_conforming_strings is set to. A NUL, which PostgreSQL's
// texts cannot hold, stays one and is refused there.
func Literal(s string) string {
	q := "'" + strings.ReplaceAll(s, "'", "''") + "'"
	if strings.Contains(s, `\`) {
		return "E" + strings.ReplaceAll(q, `\`, `\\`)
	}
	return q
}
