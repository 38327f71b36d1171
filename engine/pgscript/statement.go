package pgscript

import (
	"fmt"
	"time"

	"headroom/engine/pgwire"
)

// sql puts a statement into the request and, outside a pipeline, runs it.
func (c *client) sql(st *step) error {
	for _, a := range st.args {
		if c.env.vars[c.script.slots[a]].kind == unset {
			return c.script.errorAt(st.at, "the variable :"+c.script.names[a]+" is not set", "")
		}
	}
	if st.quotes && c.d.opt.Protocol != Simple {
		for _, p := range st.parts {
			if p.quoted && c.env.vars[c.script.slots[p.slot]].kind != unset {
				return c.script.quotedError(st, p)
			}
		}
	}
	h := &c.handler
	if st.store != discard && (c.columns[c.number] == nil || st.count > 1) {
		h = &c.describing
	}
	if c.d.opt.Protocol == Simple {
		c.conn.QueryBytes(c.fill(st))
	} else {
		c.extended(st, h == &c.describing)
		if c.piped {
			return nil
		}
		c.conn.Sync()
	}
	return c.flush(h)
}

// quotedError is what becomes of a variable inside quotes where variables
// travel as parameters: to the server it would be text.
func (s *Script) quotedError(st *step, p part) error {
	return s.errorAt(st.at, "the variable :"+s.names[p.slot]+" stands inside quotes, where no parameter can be", "the protocol simple, which puts the text in; or :"+s.names[p.slot]+" outside the quotes, joined by ||")
}

// fill writes the SQL with the variables put in.
func (c *client) fill(st *step) []byte {
	b := c.buf[:0]
	for _, p := range st.parts {
		b = append(b, p.text...)
		if p.slot < 0 {
			continue
		}
		v := c.env.vars[c.script.slots[p.slot]]
		switch {
		case p.quoted && v.kind == unset: // a colon in a text, no variable
			b = append(append(b, ':'), c.script.names[p.slot]...)
		case p.quoted && v.kind == null:
		default:
			b = v.append(b)
		}
	}
	c.buf = b
	return b
}

func (c *client) extended(st *step, describe bool) {
	name := ""
	if c.d.opt.Protocol == Prepared {
		name = c.d.names[c.number]
	}
	if name == "" || !c.prepared[c.number] {
		c.conn.Parse(name, st.text)
		c.pending = append(c.pending, c.number)
	}
	if describe {
		c.conn.Describe(name)
	}
	c.buf, c.params = c.buf[:0], c.params[:0]
	for _, a := range st.args {
		v, from := c.env.vars[c.script.slots[a]], len(c.buf)
		if v.kind == null {
			c.params = append(c.params, pgwire.Param{})
			continue
		}
		c.buf = v.append(c.buf)
		// A buffer that grows later leaves the bytes it had where they are.
		c.params = append(c.params, pgwire.Param{Value: c.buf[from:len(c.buf):len(c.buf)]})
	}
	c.conn.Bind(name, c.params, false)
	c.conn.Execute()
}

// flush sends the request, and settles what its answers change.
func (c *client) flush(h *pgwire.Handler) error {
	c.rows = 0
	if c.step.store == discard {
		h = nil
	}
	var start time.Time
	if c.times != nil {
		start = time.Now()
	}
	rep, err := c.conn.Do(h)
	if c.times != nil {
		t := &c.times[c.number]
		t.count++
		t.total += time.Since(start)
	}
	if c.d.opt.Protocol == Prepared {
		// Parsed in order; those behind a failed statement were not.
		for _, n := range c.pending[:min(rep.Parsed, len(c.pending))] {
			c.prepared[n] = true
		}
	}
	c.pending = c.pending[:0]
	if err == nil && c.step.store == storeOne && c.rows != 1 {
		err = fmt.Errorf(`\gset expects one row, and %d came`, c.rows)
	}
	return err
}

// describe notes which variables the columns of a result set.
func (c *client) describe(_ int, cols []pgwire.Column) error {
	slots := make([]int, len(cols))
	for i, col := range cols {
		slot, used := c.d.global[c.step.prefix+col.Name]
		if !used {
			slot = -1
		}
		slots[i] = slot
	}
	c.columns[c.number] = slots
	return nil
}

// row stores a row: for \gset of the last statement, for \aset of any.
func (c *client) row(stmt int, values [][]byte) error {
	if c.step.store == storeOne && stmt != c.step.count-1 {
		return nil
	}
	c.rows++
	slots := c.columns[c.number]
	if len(values) != len(slots) {
		return fmt.Errorf("a row of %d columns, and %d were announced", len(values), len(slots))
	}
	for i, slot := range slots {
		switch {
		case slot < 0:
		case values[i] == nil:
			c.env.vars[slot] = value{kind: null}
		default:
			c.env.vars[slot] = value{kind: text, s: string(values[i])}
		}
	}
	return nil
}
