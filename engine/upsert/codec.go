package upsert

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
)

// codec is how values of one column travel, and which of them are the same key.
type codec struct {
	elem  uint32 // the type sent, and that of an array of it
	array string
	own   bool // what is sent is the column's own type in binary form, not text

	// wire appends what is sent for a text; nil sends the text. key appends
	// bytes that are equal if and only if the values are; nil is wire. Where
	// they answer false the server is asked how it would write the value.
	wire, key func(dst, text []byte, c *column) ([]byte, bool)
	// vague: only the server knows which values are equal.
	vague bool
}

// column is a Column with its codec.
type column struct {
	Column
	codec
	sql  string // quoted
	cast string // the base type, quoted, without a modifier: storing checks that
	zone string // the session's time zone, if it is UTC by any name, else ""
}

// Type numbers of pg_type.
const (
	boolOID, byteaOID, int8OID, int2OID, int4OID, textOID           = 16, 17, 20, 21, 23, 25
	float4OID, float8OID, macaddrOID, dateOID, stampOID, stamptzOID = 700, 701, 829, 1082, 1114, 1184
	uuidOID, jsonbOID                                               = 2950, 3802
)

func asText() codec { return codec{elem: textOID, array: "pg_catalog.text[]"} }

func native(oid uint32, base string, wire func(dst, text []byte, c *column) ([]byte, bool)) codec {
	return codec{elem: oid, array: "pg_catalog." + base + "[]", own: true, wire: wire}
}

// keyCodec is the codec of a key column.
func keyCodec(c Column) codec {
	if c.enum {
		return asText()
	}
	text := asText()
	text.vague = true
	if c.schema != "pg_catalog" {
		return text
	}
	switch c.base {
	case "int2":
		return native(int2OID, c.base, integer(2))
	case "int4":
		return native(int4OID, c.base, integer(4))
	case "int8":
		return native(int8OID, c.base, integer(8))
	case "float4":
		return native(float4OID, c.base, float(32))
	case "float8":
		return native(float8OID, c.base, float(64))
	case "bool":
		return native(boolOID, c.base, boolean)
	case "uuid":
		return native(uuidOID, c.base, uuid)
	case "macaddr":
		return native(macaddrOID, c.base, macaddr)
	case "bytea":
		return native(byteaOID, c.base, bytea)
	case "date":
		return native(dateOID, c.base, date)
	case "timestamp":
		return native(stampOID, c.base, timestamp)
	case "timestamptz":
		return native(stamptzOID, c.base, timestamptz)
	case "numeric":
		return codec{elem: textOID, array: "pg_catalog.text[]", key: numericKey}
	case "text", "varchar", "bpchar":
		text.vague = !c.deterministic
		text.key = textKey
	case "name", "inet", "cidr", "oid", "macaddr8":
		// Equal values are written alike by the server, and only by it.
		text.vague = false
		text.key = func(dst, t []byte, _ *column) ([]byte, bool) { return dst, false }
	}
	return text
}

// valueCodec is the codec of a column that is not in the key.
func valueCodec(c Column) codec {
	if c.schema == "pg_catalog" && c.base == "jsonb" {
		return native(jsonbOID, c.base, func(dst, text []byte, _ *column) ([]byte, bool) {
			return append(append(dst, 1), text...), true // 1 is the format's version
		})
	}
	return asText()
}

func newColumn(c Column, k codec, zone string) *column {
	return &column{Column: c, codec: k, sql: pgx.Identifier{c.Name}.Sanitize(), cast: pgx.Identifier{c.schema, c.base}.Sanitize(), zone: zone}
}

// appendKey appends the bytes of a key value; asked says that text is how the
// server writes it.
func (c *column) appendKey(dst, text []byte, asked bool) ([]byte, bool) {
	f := c.key
	if f == nil {
		f = c.wire
	}
	if f == nil {
		return append(dst, text...), true
	}
	n := len(dst)
	dst, ok := f(dst, text, c)
	if !ok && asked && !c.own {
		return append(dst[:n], text...), true
	}
	return dst, ok
}

func integer(size int) func(dst, text []byte, _ *column) ([]byte, bool) {
	return func(dst, text []byte, _ *column) ([]byte, bool) {
		v, ok := parseInt(text)
		if !ok || size < 8 && (v < -1<<(8*size-1) || v >= 1<<(8*size-1)) {
			return dst, false
		}
		for i := size - 1; i >= 0; i-- {
			dst = append(dst, byte(v>>(8*i)))
		}
		return dst, true
	}
}

// parseInt is strconv.ParseInt without making a string.
func parseInt(text []byte) (int64, bool) {
	digits, neg := text, false
	if len(text) > 0 && (text[0] == '-' || text[0] == '+') {
		digits, neg = text[1:], text[0] == '-'
	}
	if len(digits) == 0 || len(digits) > 18 { // longer ones are rare
		v, err := strconv.ParseInt(string(text), 10, 64)
		return v, err == nil
	}
	var v int64
	for _, d := range digits {
		if d < '0' || d > '9' {
			return 0, false
		}
		v = v*10 + int64(d-'0')
	}
	if neg {
		v = -v
	}
	return v, true
}

func float(bits int) func(dst, text []byte, _ *column) ([]byte, bool) {
	return func(dst, text []byte, _ *column) ([]byte, bool) {
		for _, b := range text { // Go reads more spellings than PostgreSQL
			if (b < '0' || b > '9') && b != '.' && b != '-' && b != '+' && b != 'e' && b != 'E' {
				return special(dst, text, bits)
			}
		}
		v, err := strconv.ParseFloat(string(text), bits)
		if err != nil {
			return dst, false
		}
		return appendFloat(dst, v, bits), true
	}
}

func special(dst, text []byte, bits int) ([]byte, bool) {
	switch string(text) {
	case "NaN":
		return appendFloat(dst, math.NaN(), bits), true
	case "Infinity":
		return appendFloat(dst, math.Inf(1), bits), true
	case "-Infinity":
		return appendFloat(dst, math.Inf(-1), bits), true
	}
	return dst, false
}

func appendFloat(dst []byte, v float64, bits int) []byte {
	if v == 0 {
		v = 0 // not -0, which is equal
	}
	if bits == 32 {
		return binary.BigEndian.AppendUint32(dst, math.Float32bits(float32(v)))
	}
	return binary.BigEndian.AppendUint64(dst, math.Float64bits(v))
}

func boolean(dst, text []byte, _ *column) ([]byte, bool) {
	switch string(text) {
	case "t", "true", "TRUE", "True", "1", "y", "yes", "on":
		return append(dst, 1), true
	case "f", "false", "FALSE", "False", "0", "n", "no", "off":
		return append(dst, 0), true
	}
	return dst, false
}

// uuid takes what PostgreSQL takes: hyphens after any group of four digits,
// braces around.
func uuid(dst, text []byte, _ *column) ([]byte, bool) {
	if n := len(text); n > 1 && text[0] == '{' && text[n-1] == '}' {
		text = text[1 : n-1]
	}
	digits := 0
	var half byte
	for i, b := range text {
		if b == '-' {
			if digits == 0 || digits%4 != 0 || digits == 32 || text[i-1] == '-' {
				return dst, false
			}
			continue
		}
		v, ok := nibble(b)
		if !ok || digits == 32 {
			return dst, false
		}
		if digits%2 == 1 {
			dst = append(dst, half<<4|v)
		}
		half = v
		digits++
	}
	return dst, digits == 32
}

func nibble(b byte) (byte, bool) {
	switch {
	case b >= '0' && b <= '9':
		return b - '0', true
	case b >= 'a' && b <= 'f':
		return b - 'a' + 10, true
	case b >= 'A' && b <= 'F':
		return b - 'A' + 10, true
	}
	return 0, false
}

// macaddr takes the spellings with one separator after each pair of digits,
// after each three or four digits, and with none.
func macaddr(dst, text []byte, _ *column) ([]byte, bool) {
	every, sep := 0, byte(0)
	for i, b := range text {
		if _, ok := nibble(b); !ok {
			every, sep = i, b
			break
		}
	}
	switch {
	case every == 0 && len(text) == 12:
	case every == 2 && (sep == ':' || sep == '-') && len(text) == 17:
	case every == 4 && (sep == '.' || sep == '-') && len(text) == 14:
	case every == 6 && (sep == ':' || sep == '-') && len(text) == 13:
	default:
		return dst, false
	}
	digits := 0
	var half byte
	for i, b := range text {
		if every > 0 && i%(every+1) == every {
			if b != sep {
				return dst, false
			}
			continue
		}
		v, ok := nibble(b)
		if !ok {
			return dst, false
		}
		if digits%2 == 1 {
			dst = append(dst, half<<4|v)
		}
		half = v
		digits++
	}
	return dst, digits == 12
}

// bytea takes the hex form and the escape form.
func bytea(dst, text []byte, _ *column) ([]byte, bool) {
	if bytes.HasPrefix(text, []byte(`\x`)) {
		n := len(dst)
		dst = slices.Grow(dst, hex.DecodedLen(len(text)-2))[:n+hex.DecodedLen(len(text)-2)]
		if _, err := hex.Decode(dst[n:], text[2:]); err != nil {
			return dst[:n], false
		}
		return dst, true
	}
	for len(text) > 0 {
		i := bytes.IndexByte(text, '\\')
		if i < 0 {
			return append(dst, text...), true
		}
		dst = append(dst, text[:i]...)
		text = text[i+1:]
		if len(text) > 0 && text[0] == '\\' {
			dst, text = append(dst, '\\'), text[1:]
			continue
		}
		if len(text) < 3 {
			return dst, false
		}
		v, err := strconv.ParseUint(string(text[:3]), 8, 8)
		if err != nil {
			return dst, false
		}
		dst, text = append(dst, byte(v)), text[3:]
	}
	return dst, true
}

// textKey is what is stored of a text: trailing blanks mean nothing in
// character(n), and those beyond the length are cut in varchar(n).
func textKey(dst, text []byte, c *column) ([]byte, bool) {
	if c.base == "bpchar" {
		return append(dst, bytes.TrimRight(text, " ")...), true
	}
	if c.base == "varchar" && c.mod > 4 {
		if keep := int(c.mod) - 4; len(text) > keep && utf8.RuneCount(text) > keep {
			end := 0
			for range keep {
				_, n := utf8.DecodeRune(text[end:])
				end += n
			}
			if len(bytes.TrimRight(text[end:], " ")) == 0 {
				text = text[:end]
			}
		}
	}
	return append(dst, text...), true
}
