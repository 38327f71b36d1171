package record

import (
	"bytes"
	"strings"
)

// parser takes records apart. What it returns is valid until its next call.
type parser struct {
	o      Options
	fields [][]byte
	arena  []byte // unescaped fields; never longer than the record, so it does not move
}

func (p *parser) begin(raw []byte) {
	p.fields = p.fields[:0]
	if cap(p.arena) < len(raw) || cap(p.arena) > 4*startBuffer && len(raw) < startBuffer {
		p.arena = make([]byte, 0, max(len(raw), 1<<10))
	}
	p.arena = p.arena[:0]
}

// null says whether the field as written stands for NULL.
func (p *parser) null(written []byte) bool { return string(written) == p.o.Null }

func (p *parser) add(written, value []byte) {
	if p.null(written) {
		value = nil
	}
	p.fields = append(p.fields, value)
}

// plain splits a record that holds nothing special.
func (p *parser) plain(raw []byte) [][]byte {
	for {
		i := bytes.IndexByte(raw, p.o.Delimiter)
		if i < 0 {
			p.add(raw, raw)
			return p.fields
		}
		p.add(raw[:i], raw[:i:i])
		raw = raw[i+1:]
	}
}

// csv takes a record of CSV apart as COPY does; why says what is wrong.
func (p *parser) csv(raw []byte) (_ [][]byte, why string) {
	p.begin(raw)
	breaks := bytes.IndexByte(raw, '\r') >= 0 || bytes.IndexByte(raw, '\n') >= 0
	if !breaks && bytes.IndexByte(raw, p.o.Quote) < 0 {
		return p.plain(raw), ""
	}
	for i := 0; ; i++ {
		n, why := p.csvField(raw[i:])
		if why != "" {
			return nil, why
		}
		if i += n; i >= len(raw) {
			return p.fields, ""
		}
	}
}

// csvField takes the first field of b and returns how long it is as written.
func (p *parser) csvField(b []byte) (n int, why string) {
	from := len(p.arena)
	quoted, in := false, false
	i := 0
	for ; i < len(b); i++ {
		x := b[i]
		switch {
		case in && x == p.o.Escape && i+1 < len(b) && (b[i+1] == p.o.Escape || b[i+1] == p.o.Quote):
			i++
			p.arena = append(p.arena, b[i])
		case x == p.o.Quote:
			in = !in
			quoted = true
		case !in && x == p.o.Delimiter:
			p.csvAdd(b[:i], from, quoted)
			return i, ""
		case !in && x == '\r':
			return 0, "a carriage return stands outside quotes"
		case !in && x == '\n':
			return 0, "a line break stands outside quotes"
		default:
			p.arena = append(p.arena, x)
		}
	}
	if in {
		return 0, "a quote is not closed"
	}
	p.csvAdd(b, from, quoted)
	return i, ""
}

func (p *parser) csvAdd(written []byte, from int, quoted bool) {
	value := p.arena[from:len(p.arena):len(p.arena)]
	if quoted {
		p.fields = append(p.fields, value)
		return
	}
	p.add(written, value)
}

// text takes a record of COPY's text format apart; why says what is wrong.
func (p *parser) text(raw []byte) (_ [][]byte, why string) {
	p.begin(raw)
	if bytes.IndexByte(raw, '\\') < 0 {
		if bytes.IndexByte(raw, '\r') >= 0 {
			return nil, `a carriage return is not escaped as \r`
		}
		if bytes.IndexByte(raw, '\n') >= 0 {
			return nil, `a line break is not escaped as \n`
		}
		return p.plain(raw), ""
	}
	from, start := 0, 0
	done := func(end int) {
		p.add(raw[start:end], p.arena[from:len(p.arena):len(p.arena)])
		from, start = len(p.arena), end+1
	}
	for i := 0; i < len(raw); i++ {
		switch x := raw[i]; {
		case x == p.o.Delimiter:
			done(i)
		case x == '\r':
			return nil, `a carriage return is not escaped as \r`
		case x == '\n':
			return nil, `a line break is not escaped as \n`
		case x != '\\':
			p.arena = append(p.arena, x)
		case i+1 < len(raw): // a backslash at the very end is dropped, as by COPY
			c, n := unescape(raw[i+1:])
			p.arena = append(p.arena, c)
			i += n
		}
	}
	done(len(raw))
	return p.fields, ""
}

// unescape reads what stands behind a backslash in COPY's text format: the
// byte meant, and how many bytes wrote it.
func unescape(b []byte) (c byte, n int) {
	const digits = "01234567"
	if strings.IndexByte(digits, b[0]) >= 0 {
		v := 0
		for n < 3 && n < len(b) && strings.IndexByte(digits, b[n]) >= 0 {
			v = v<<3 + int(b[n]-'0')
			n++
		}
		return byte(v), n
	}
	switch b[0] {
	case 'b':
		return '\b', 1
	case 'f':
		return '\f', 1
	case 'n':
		return '\n', 1
	case 'r':
		return '\r', 1
	case 't':
		return '\t', 1
	case 'v':
		return '\v', 1
	case 'x':
		v := 0
		for n = 1; n < 3 && n < len(b); n++ {
			d := hexDigit(b[n])
			if d < 0 {
				break
			}
			v = v<<4 + d
		}
		if n > 1 {
			return byte(v), n
		}
	}
	return b[0], 1
}

// hexDigit is the value of a hexadecimal digit, or -1.
func hexDigit(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}
