package pgscript

import (
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"math/rand/v2"
)

// env is what an expression can see.
type env struct {
	vars  []value
	slots []int // of this script's variables in vars
	rng   *rand.Rand
	seed  int64 // default_seed, for hash and permute
	debug io.Writer
}

// exprError says where in the script an expression failed.
type exprError struct {
	at  int
	err error
}

func (e *exprError) Error() string { return e.err.Error() }
func (e *exprError) Unwrap() error { return e.err }

func (v *env) eval(e *expr) (value, error) {
	switch e.op {
	case "const":
		return e.val, nil
	case "var":
		x := v.vars[v.slots[e.slot]]
		if x.kind == unset {
			return x, &exprError{e.at, errors.New("the variable is not set")}
		}
		x, err := x.typed()
		return x, at(e, err)
	case "and", "or":
		return v.logic(e)
	case "case":
		return v.caseWhen(e)
	}
	var room [4]value
	args, nulls := room[:0], false
	for _, k := range e.kids {
		x, err := v.eval(k)
		if err != nil {
			return x, err
		}
		args = append(args, x)
		nulls = nulls || x.kind == null
	}
	var out value
	var err error
	switch e.op {
	case "is null":
		return boolValue(nulls), nil
	case "is true", "is false":
		return boolValue(args[0].kind == boolean && (args[0].i != 0) == (e.op == "is true")), nil
	case "debug":
		_, err = fmt.Fprintf(v.debug, "debug: %s %s\n", args[0].typeName(), args[0].append(nil))
		return args[0], at(e, err)
	}
	if nulls { // as in SQL
		return value{kind: null}, nil
	}
	switch e.op {
	case "+", "-", "*", "/", "%", "mod", "<", "<=", ">", ">=", "=", "<>", "&", "|", "#", "<<", ">>", "not":
		out, err = operate(e.op, args)
	case "random", "random_exponential", "random_gaussian", "random_zipfian", "hash", "hash_murmur2", "hash_fnv1a", "permute":
		out, err = v.draw(e.op, args)
	default:
		out, err = call(e.op, args)
	}
	return out, at(e, err)
}

func at(e *expr, err error) error {
	if err == nil {
		return nil
	}
	return &exprError{e.at, err}
}

// logic evaluates its second side only if the first leaves it open. A null that
// is met makes null, as in pgbench; SQL would take "null or true" as true.
func (v *env) logic(e *expr) (value, error) {
	decides := e.op == "or"
	for _, k := range e.kids {
		x, err := v.eval(k)
		if err != nil || x.kind == null {
			return x, err
		}
		b, err := x.toBool()
		if err != nil {
			return x, at(e, err)
		}
		if b == decides {
			return boolValue(b), nil
		}
	}
	return boolValue(!decides), nil
}

func (v *env) caseWhen(e *expr) (value, error) {
	last := len(e.kids) - 1
	for i := 0; i < last; i += 2 {
		cond, err := v.eval(e.kids[i])
		if err != nil {
			return cond, err
		}
		if cond.truth() {
			return v.eval(e.kids[i+1])
		}
	}
	return v.eval(e.kids[last])
}

func operate(op string, a []value) (value, error) {
	if op == "not" {
		b, err := a[0].toBool()
		return boolValue(!b), err
	}
	if a[0].kind == double || a[1].kind == double {
		switch op {
		case "+", "-", "*", "/", "<", "<=", ">", ">=", "=", "<>":
			l, err := a[0].toDouble()
			r, err2 := a[1].toDouble()
			return doubles(op, l, r), errors.Join(err, err2)
		}
	}
	l, err := a[0].toInt()
	if err != nil {
		return value{}, err
	}
	r, err := a[1].toInt()
	if err != nil {
		return value{}, err
	}
	return integers(op, l, r)
}

func doubles(op string, l, r float64) value {
	switch op {
	case "+":
		return doubleValue(l + r)
	case "-":
		return doubleValue(l - r)
	case "*":
		return doubleValue(l * r)
	case "/":
		return doubleValue(l / r)
	}
	return compare(op, l, r)
}

func compare[T int64 | float64](op string, l, r T) value {
	switch op {
	case "<":
		return boolValue(l < r)
	case "<=":
		return boolValue(l <= r)
	case ">":
		return boolValue(l > r)
	case ">=":
		return boolValue(l >= r)
	case "=":
		return boolValue(l == r)
	}
	return boolValue(l != r)
}

func integers(op string, l, r int64) (value, error) {
	var out int64
	overflow := false
	switch op {
	case "+":
		out = l + r
		overflow = (out > l) != (r > 0) && r != 0
	case "-":
		out = l - r
		overflow = (out < l) != (r > 0) && r != 0
	case "*":
		out, overflow = multiply(l, r)
	case "/", "%", "mod":
		return divide(op, l, r)
	case "&":
		out = l & r
	case "|":
		out = l | r
	case "#":
		out = l ^ r
	case "<<", ">>":
		if r < 0 || r > 63 {
			return value{}, fmt.Errorf("shift by %d: it goes from 0 to 63", r)
		}
		if out = l << r; op == ">>" {
			out = l >> r
		}
	default:
		return compare(op, l, r), nil
	}
	if overflow {
		return value{}, fmt.Errorf("bigint out of range: %d %s %d", l, op, r)
	}
	return intValue(out), nil
}

func multiply(l, r int64) (out int64, overflow bool) {
	hi, lo := bits.Mul64(uint64(l), uint64(r))
	// The high word of the signed product must only repeat the sign.
	signed := int64(hi)
	if l < 0 {
		signed -= r
	}
	if r < 0 {
		signed -= l
	}
	out = int64(lo)
	return out, signed != out>>63
}

func divide(op string, l, r int64) (value, error) {
	switch {
	case r == 0:
		return value{}, errors.New("division by zero")
	case op == "/" && r == -1 && l == math.MinInt64:
		return value{}, fmt.Errorf("bigint out of range: %d / -1", l)
	case op == "/":
		return intValue(l / r), nil
	case r == -1:
		return intValue(0), nil
	}
	return intValue(l % r), nil
}

func call(name string, a []value) (value, error) {
	switch name {
	case "pi":
		return doubleValue(math.Pi), nil
	case "abs":
		if a[0].kind != double {
			i, err := a[0].toInt()
			return intValue(max(i, -i)), err
		}
		return doubleValue(math.Abs(a[0].d)), nil
	case "int":
		i, err := a[0].toInt()
		return intValue(i), err
	case "least", "greatest":
		return extreme(name == "least", a)
	}
	x, err := a[0].toDouble()
	if err != nil {
		return value{}, err
	}
	switch name {
	case "sqrt":
		x = math.Sqrt(x)
	case "ln":
		x = math.Log(x)
	case "exp":
		x = math.Exp(x)
	case "pow", "power":
		y, err := a[1].toDouble()
		return doubleValue(math.Pow(x, y)), err
	}
	return doubleValue(x), nil // and "double"
}

func extreme(least bool, a []value) (value, error) {
	for _, v := range a {
		if v.kind == double {
			return extremeDouble(least, a)
		}
	}
	var best int64
	for n, v := range a {
		i, err := v.toInt()
		if err != nil {
			return value{}, err
		}
		if n == 0 || (i < best) == least {
			best = i
		}
	}
	return intValue(best), nil
}

func extremeDouble(least bool, a []value) (value, error) {
	var best float64
	for n, v := range a {
		d, err := v.toDouble()
		if err != nil {
			return value{}, err
		}
		if n == 0 || (d < best) == least {
			best = d
		}
	}
	return doubleValue(best), nil
}
