package pgwire

import "encoding/binary"

// Param is one parameter of Bind. A nil Value is NULL.
type Param struct {
	Value  []byte
	Binary bool // Value is in the type's binary form
}

func (c *Conn) start(kind byte) (at int) {
	c.out = append(c.out, kind, 0, 0, 0, 0)
	return len(c.out) - 4
}

func (c *Conn) end(at int) {
	binary.BigEndian.PutUint32(c.out[at:], uint32(len(c.out)-at))
}

func (c *Conn) text(s string) { c.out = append(append(c.out, s...), 0) }

// Query adds sql to the request, in the simple protocol: one or more
// statements, parameters not possible. It needs no Sync.
func (c *Conn) Query(sql string) { at := c.start('Q'); c.text(sql); c.end(at); c.units++ }

// QueryBytes is Query for bytes that the caller keeps; they are copied.
func (c *Conn) QueryBytes(sql []byte) {
	at := c.start('Q')
	c.out = append(append(c.out, sql...), 0)
	c.end(at)
	c.units++
}

// Parse adds the preparing of sql under a name; the name "" is replaced by the
// next Parse. The server finds the types of the parameters.
func (c *Conn) Parse(name, sql string) {
	at := c.start('P')
	c.text(name)
	c.text(sql)
	c.out = append(c.out, 0, 0)
	c.end(at)
}

// Describe adds a question for the parameters and columns of a prepared
// statement.
func (c *Conn) Describe(name string) {
	at := c.start('D')
	c.out = append(c.out, 'S')
	c.text(name)
	c.end(at)
}

// Bind adds the binding of parameters to a prepared statement. binary asks for
// all result columns in binary form. At most 65,535 parameters.
func (c *Conn) Bind(name string, params []Param, binaryResult bool) {
	at := c.start('B')
	c.out = append(c.out, 0) // unnamed portal
	c.text(name)
	c.formats(params)
	c.out = binary.BigEndian.AppendUint16(c.out, uint16(len(params)))
	for _, p := range params {
		if p.Value == nil {
			c.out = append(c.out, 255, 255, 255, 255)
			continue
		}
		c.out = binary.BigEndian.AppendUint32(c.out, uint32(len(p.Value)))
		c.out = append(c.out, p.Value...)
	}
	if binaryResult {
		c.out = append(c.out, 0, 1, 0, 1)
	} else {
		c.out = append(c.out, 0, 0)
	}
	c.end(at)
}

func (c *Conn) formats(params []Param) {
	any := false
	for _, p := range params {
		any = any || p.Binary
	}
	if !any { // no code at all means text for all
		c.out = append(c.out, 0, 0)
		return
	}
	c.out = binary.BigEndian.AppendUint16(c.out, uint16(len(params)))
	for _, p := range params {
		if p.Binary {
			c.out = append(c.out, 0, 1)
		} else {
			c.out = append(c.out, 0, 0)
		}
	}
}

// Execute adds the execution of what was bound last, for all its rows.
func (c *Conn) Execute() { c.out = append(c.out, 'E', 0, 0, 0, 9, 0, 0, 0, 0, 0) }

// Sync ends a unit of the extended protocol: if a statement of the unit fails,
// those after it are not run, and without an explicit transaction the whole
// unit is undone. Every unit must end so before Do.
func (c *Conn) Sync() { c.out = append(c.out, 'S', 0, 0, 0, 4); c.units++ }

// Discard drops the request that was built and not sent.
func (c *Conn) Discard() { c.out = c.out[:0]; c.units = 0 }
