package pgwire

import (
	"errors"
	"fmt"
)

// Column is one column of a result.
type Column struct {
	Name string
	Type uint32 // OID
}

// Handler takes what a round trip brings; any field may be nil. stmt counts the
// statements that have completed before in this round trip. An error from a
// callback becomes Do's, after all answers have been read.
type Handler struct {
	Columns func(stmt int, cols []Column) error
	Row     func(stmt int, values [][]byte) error // nil is NULL; good during the call only

	types func(oids []uint32)
}

// Reply sums up one round trip.
type Reply struct {
	Statements int    // completed
	Rows       int64  // returned or changed, as the command tags say
	Parsed     int    // Parse messages that the server took, in their order
	Errors     int    // units that failed
	Tag        []byte // of the last statement, such as "UPDATE 1"; good until the next Do
}

// A bigger request is written by a second goroutine while the answers are
// read: else both sides could wait for each other with full sockets. A smaller
// one fits into the socket of an idle connection.
const writeAlone = 64 << 10

// Do sends the request and reads all answers to it, until the server is ready
// again. It returns the first error: a *ServerError, or one with ErrLost.
func (c *Conn) Do(h *Handler) (Reply, error) {
	if c.lost != nil {
		c.Discard()
		return Reply{}, c.lost
	}
	if h == nil {
		h = &Handler{}
	}
	written := c.send()
	rep, err := c.receive(h)
	if written != nil {
		// The server has answered everything, so it has read everything; or
		// the socket is shut. Either way the writer is done.
		<-written
	}
	c.Discard()
	return rep, err
}

func (c *Conn) send() <-chan struct{} {
	if len(c.out) <= writeAlone {
		// A failed write is told by the read that follows, with the server's
		// last words if it left some.
		_, _ = c.link.Write(c.out)
		return nil
	}
	written, out := make(chan struct{}), c.out
	go func() {
		defer close(written)
		_, _ = c.link.Write(out)
	}()
	return written
}

func (c *Conn) receive(h *Handler) (rep Reply, first error) {
	keep := func(err error) {
		if first == nil {
			first = err
		}
	}
	for left := c.units; left > 0; {
		kind, body, err := c.in.next()
		if err != nil {
			return rep, c.dead(err, first)
		}
		switch kind {
		case 'D':
			if h.Row != nil {
				if err := c.row(h, rep.Statements, body); errors.Is(err, errGarbled) {
					return rep, c.dead(err, first)
				} else if err != nil {
					keep(err)
				}
			}
		case 'C':
			c.tag = append(c.tag[:0], cut(body)...)
			rep.Tag = c.tag
			rep.Rows += tagRows(c.tag)
			rep.Statements++
		case 'Z':
			if len(body) != 1 || (body[0] != 'I' && body[0] != 'T' && body[0] != 'E') {
				return rep, c.dead(errGarbled, first)
			}
			c.status = body[0]
			left--
		case 'E':
			e, ok := parseError(body)
			if !ok {
				return rep, c.dead(errGarbled, first)
			}
			rep.Errors++
			keep(e)
		default:
			if err := c.other(h, kind, body, &rep); errors.Is(err, ErrLost) {
				return rep, c.dead(err, first)
			} else if err != nil {
				keep(err)
			}
		}
	}
	return rep, first
}

// other handles the rarer messages; an error with ErrLost ends the connection.
func (c *Conn) other(h *Handler, kind byte, body []byte, rep *Reply) error {
	switch kind {
	case '1':
		rep.Parsed++
	case 'I': // empty statement
		rep.Statements++
	case '2', '3', 'n', 's', 'N', 'A', 'H', 'd', 'c':
	case 'T':
		if h.Columns != nil {
			cols, ok := columns(body)
			if !ok {
				return fmt.Errorf("%w: %w", ErrLost, errGarbled)
			}
			return h.Columns(rep.Statements, cols)
		}
	case 't':
		if h.types != nil {
			h.types(oids(body))
		}
	case 'S':
		cur := cursor{b: body}
		if k, v := cur.text(), cur.text(); !cur.bad && len(c.params) < 256 {
			c.params[string(k)] = string(v)
		}
	case 'G', 'W':
		return fmt.Errorf("%w: COPY from the client is not possible on this connection", ErrLost)
	default:
		return fmt.Errorf("%w: %w: message type %q", ErrLost, errGarbled, kind)
	}
	return nil
}

// dead ends the connection; a FATAL that the server sent before is the reason.
func (c *Conn) dead(err, said error) error {
	var e *ServerError
	if errors.As(said, &e) && e.Severity != "ERROR" {
		err = said
	}
	err = c.lose(err)
	c.Interrupt(err) // frees a writer that still waits
	return err
}

func (c *Conn) row(h *Handler, stmt int, body []byte) error {
	cur := cursor{b: body}
	n := cur.int16()
	c.values = c.values[:0]
	for i := 0; i < n && !cur.bad; i++ {
		size := cur.int32()
		if size == -1 {
			c.values = append(c.values, nil)
			continue
		}
		c.values = append(c.values, cur.take(size))
	}
	if cur.bad || n < 0 || len(cur.b) > 0 {
		return errGarbled
	}
	return h.Row(stmt, c.values)
}

func columns(body []byte) ([]Column, bool) {
	cur := cursor{b: body}
	var out []Column
	for n := cur.int16(); n > 0 && !cur.bad; n-- {
		name := string(cur.text())
		cur.take(6) // table and attribute
		out = append(out, Column{Name: name, Type: uint32(cur.int32())})
		cur.take(8) // size, modifier, format
	}
	return out, !cur.bad
}

func oids(body []byte) []uint32 {
	cur := cursor{b: body}
	var out []uint32
	for n := cur.int16(); n > 0 && !cur.bad; n-- {
		out = append(out, uint32(cur.int32()))
	}
	return out
}

// tagRows is the number at the end of a command tag, or 0.
func tagRows(tag []byte) int64 {
	n, unit := int64(0), int64(1)
	for i := len(tag) - 1; i >= 0 && tag[i] >= '0' && tag[i] <= '9' && len(tag)-i <= 18; i-- {
		n += int64(tag[i]-'0') * unit
		unit *= 10
	}
	return n
}

func cut(body []byte) []byte {
	if n := len(body); n > 0 && body[n-1] == 0 {
		return body[:n-1]
	}
	return body
}

// Statement is what the server says of a prepared statement.
type Statement struct {
	Params  []uint32 // OIDs of the parameters' types
	Columns []Column // of the result; nil if it has none
}

// Prepare prepares sql under name and asks for its parameters and columns, in
// one round trip.
func (c *Conn) Prepare(name, sql string) (Statement, error) {
	var s Statement
	c.Parse(name, sql)
	c.Describe(name)
	c.Sync()
	_, err := c.Do(&Handler{
		Columns: func(_ int, cols []Column) error { s.Columns = cols; return nil },
		types:   func(oids []uint32) { s.Params = oids },
	})
	return s, err
}
