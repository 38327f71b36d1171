package upsert

import "encoding/binary"

// appendMessage begins a protocol message and returns where its length goes.
func begin(dst []byte, kind byte) ([]byte, int) {
	return append(dst, kind, 0, 0, 0, 0), len(dst) + 1
}

// end fills in a length that counts itself.
func end(dst []byte, at int) { binary.BigEndian.PutUint32(dst[at:], uint32(len(dst)-at)) }

// appendBind begins a Bind of n binary parameters to a prepared statement.
func appendBind(dst []byte, statement string, n int) ([]byte, int) {
	dst, at := begin(dst, 'B')
	dst = append(dst, 0) // the unnamed portal
	dst = append(append(dst, statement...), 0)
	dst = append(dst, 0, 1, 0, 1) // one format for all: binary
	return binary.BigEndian.AppendUint16(dst, uint16(n)), at
}

// appendBound ends a Bind and has it executed.
func appendBound(dst []byte, at int) []byte {
	dst = append(dst, 0, 0) // results as text
	end(dst, at)
	return append(dst, 'E', 0, 0, 0, 9, 0, 0, 0, 0, 0)
}

var syncMessage = []byte{'S', 0, 0, 0, 4}

// appendArrays is Bind and Execute of a statement over arrays.
func (p *plan) appendArrays(dst []byte, statement string, rows []outRow, rest [][]byte) []byte {
	dst, at := appendBind(dst, statement, len(p.all))
	rest = rest[:0]
	for _, r := range rows {
		rest = append(rest, r.fields)
	}
	for _, c := range p.all {
		size := len(dst)
		dst = append(dst, 0, 0, 0, 0)
		dst = append(dst, 0, 0, 0, 1, 0, 0, 0, 0) // one dimension; no NULL yet
		nulls := len(dst) - 1
		dst = binary.BigEndian.AppendUint32(dst, c.elem)
		dst = binary.BigEndian.AppendUint32(dst, uint32(len(rows)))
		dst = append(dst, 0, 0, 0, 1) // numbered from 1
		for i, f := range rest {
			n := int32(binary.BigEndian.Uint32(f))
			if n < 0 {
				dst[nulls] = 1
				n = 0
			}
			dst = append(dst, f[:4+n]...)
			rest[i] = f[4+n:]
		}
		binary.BigEndian.PutUint32(dst[size:], uint32(len(dst)-size-4))
	}
	return appendBound(dst, at)
}

// appendSingle is Bind and Execute of a statement for one row.
func (p *plan) appendSingle(dst []byte, statement string, r outRow) []byte {
	dst, at := appendBind(dst, statement, len(p.all))
	dst = append(dst, r.fields...)
	return appendBound(dst, at)
}

// copyHeader begins COPY's binary format, copyEnd ends it.
const copyHeader = "PGCOPY\n\xff\r\n\x00\x00\x00\x00\x00\x00\x00\x00\x00"

var copyEnd = []byte{0xff, 0xff}

// appendCopy is CopyData for rows.
func (p *plan) appendCopy(dst []byte, rows []outRow) []byte {
	dst, at := begin(dst, 'd')
	for _, r := range rows {
		dst = binary.BigEndian.AppendUint16(dst, uint16(len(p.all)))
		dst = append(dst, r.fields...)
	}
	end(dst, at)
	return dst
}
