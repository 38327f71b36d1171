package pgscript

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

type kind uint8

const (
	unset kind = iota
	null
	boolean
	integer
	double
	text // came from outside: \gset, a column, or Options.Vars
)

// value is what a variable or an expression holds.
type value struct {
	kind kind
	i    int64 // integer; boolean as 0 or 1
	d    float64
	s    string
}

func intValue(i int64) value      { return value{kind: integer, i: i} }
func doubleValue(d float64) value { return value{kind: double, d: d} }

func boolValue(b bool) value {
	if b {
		return value{kind: boolean, i: 1}
	}
	return value{kind: boolean}
}

// append writes v as it stands in SQL.
func (v value) append(b []byte) []byte {
	switch v.kind {
	case null:
		return append(b, "NULL"...)
	case boolean:
		return strconv.AppendBool(b, v.i != 0)
	case integer:
		return strconv.AppendInt(b, v.i, 10)
	case double:
		if math.IsInf(v.d, 0) { // Go's +Inf is no number to PostgreSQL
			return append(b, strings.TrimPrefix(strconv.FormatFloat(v.d, 'g', -1, 64), "+")+"inity"...)
		}
		return strconv.AppendFloat(b, v.d, 'g', 15, 64)
	}
	return append(b, v.s...)
}

// typed gives a text the type it looks like, as pgbench does with values from
// outside.
func (v value) typed() (value, error) {
	if v.kind != text {
		return v, nil
	}
	switch strings.ToLower(v.s) {
	case "null":
		return value{kind: null}, nil
	case "t", "true", "y", "yes", "on":
		return boolValue(true), nil
	case "f", "false", "n", "no", "off":
		return boolValue(false), nil
	}
	if i, err := strconv.ParseInt(v.s, 10, 64); err == nil {
		return intValue(i), nil
	}
	if d, err := strconv.ParseFloat(v.s, 64); err == nil {
		return doubleValue(d), nil
	}
	return value{}, fmt.Errorf("%.40q is no integer, double, boolean or null", v.s)
}

func (v value) typeName() string {
	return [...]string{"nothing", "null", "boolean", "int", "double", "text"}[v.kind]
}

func (v value) toInt() (int64, error) {
	switch v.kind {
	case integer:
		return v.i, nil
	case double:
		d := math.RoundToEven(v.d)
		if !(d >= -(1<<63) && d < 1<<63) {
			return 0, fmt.Errorf("double to int overflow for %g", v.d)
		}
		return int64(d), nil
	}
	return 0, fmt.Errorf("cannot coerce %s to int", v.typeName())
}

func (v value) toDouble() (float64, error) {
	switch v.kind {
	case integer:
		return float64(v.i), nil
	case double:
		return v.d, nil
	}
	return 0, fmt.Errorf("cannot coerce %s to double", v.typeName())
}

func (v value) toBool() (bool, error) {
	if v.kind == boolean {
		return v.i != 0, nil
	}
	return false, fmt.Errorf("cannot coerce %s to boolean", v.typeName())
}

// truth is what \if makes of v.
func (v value) truth() bool { return v.i != 0 || v.d != 0 }
