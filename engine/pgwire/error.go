package pgwire

import "fmt"

// ServerError is what the server said was wrong. The connection stays usable
// unless ErrLost is in the same chain.
type ServerError struct {
	Severity string // ERROR, FATAL or PANIC
	Code     string // SQLSTATE, five characters
	Message  string
	Detail   string
	Hint     string
	Where    string
	Position string // character in the statement, from 1; "" if not told
}

func (e *ServerError) Error() string { return fmt.Sprintf("%s (SQLSTATE %s)", e.Message, e.Code) }

// Retryable tells that the same transaction may succeed when run again: a
// serialization failure or a deadlock.
func (e *ServerError) Retryable() bool { return e.Code == "40001" || e.Code == "40P01" }

func parseError(body []byte) (*ServerError, bool) {
	e := &ServerError{}
	cur := cursor{b: body}
	for {
		k := cur.take(1)
		if cur.bad {
			return e, false
		}
		if k[0] == 0 {
			return e, true
		}
		v := string(cur.text())
		switch k[0] {
		case 'S':
			if e.Severity == "" {
				e.Severity = v
			}
		case 'V': // the severity, never translated
			e.Severity = v
		case 'C':
			e.Code = v
		case 'M':
			e.Message = v
		case 'D':
			e.Detail = v
		case 'H':
			e.Hint = v
		case 'W':
			e.Where = v
		case 'P':
			e.Position = v
		}
	}
}
