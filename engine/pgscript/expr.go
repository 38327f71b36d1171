package pgscript

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// expr is a node of an expression. What an op means is in eval.go.
type expr struct {
	op   string
	kids []*expr
	val  value // of "const"
	slot int   // of "var"
	at   int   // offset in the script
}

// arity is how many arguments each function takes; -1 is no limit.
var arity = map[string][2]int{
	"abs": {1, 1}, "debug": {1, 1}, "double": {1, 1}, "exp": {1, 1}, "greatest": {1, -1}, "hash": {1, 2}, "hash_fnv1a": {1, 2},
	"hash_murmur2": {1, 2}, "int": {1, 1}, "least": {1, -1}, "ln": {1, 1}, "mod": {2, 2}, "permute": {2, 3}, "pi": {0, 0}, "pow": {2, 2},
	"power": {2, 2}, "random": {2, 2}, "random_exponential": {3, 3}, "random_gaussian": {3, 3}, "random_zipfian": {3, 3}, "sqrt": {1, 1},
}

func functionNames() string {
	var names []string
	for n := range arity {
		names = append(names, n)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// level is the strength of each two-sided operator.
var level = map[string]int{
	"or": 1, "and": 2, "is": 4, "isnull": 4, "notnull": 4, "<": 5, ">": 5, "=": 5, "<=": 5, ">=": 5, "<>": 5,
	"|": 6, "#": 6, "&": 6, "<<": 6, ">>": 6, "+": 7, "-": 7, "*": 8, "/": 8, "%": 8,
}

const (
	levelNot, levelCompare, levelBits, levelUnary = 3, 5, 6, 9
	maxDepth                                      = 200 // nested parts of one expression
)

// exprParser parses src[pos:end]. It panics with *Error inside, which never
// leaves parseExpr.
type exprParser struct {
	*parser
	end   int
	tok   string // lower-case; "" at the end
	kind  byte   // 'n' number, 'v' variable, 'w' word, 'o' operator
	at    int
	depth int
}

func (p *parser) parseExpr(start, end int) (e *expr, err error) {
	x := &exprParser{parser: p, end: end}
	p.pos = start
	defer func() {
		if r := recover(); r != nil {
			bad, ok := r.(*Error)
			if !ok {
				panic(r)
			}
			err = bad
		}
	}()
	x.next()
	if x.tok == "" {
		x.fail("the expression is missing", "")
	}
	e = x.binary(1)
	if x.tok != "" {
		x.fail(fmt.Sprintf("unexpected %q", x.tok), "an operator or the end of the line")
	}
	return e, nil
}

func (x *exprParser) fail(reason, allowed string) { panic(x.errorAt(x.at, reason, allowed)) }

func (x *exprParser) next() {
	for x.pos < x.end && (isSpace(x.src[x.pos]) || x.src[x.pos] == '\\' && continues(x.src, x.pos)) {
		x.pos++
	}
	x.at, x.tok, x.kind = x.pos, "", 0
	if x.pos >= x.end {
		return
	}
	rest := x.src[x.pos:x.end]
	n := 1
	switch c := rest[0]; {
	case isDigit(c) || c == '.' && len(rest) > 1 && isDigit(rest[1]):
		n, x.kind = numberLength(rest), 'n'
	case c == ':' && len(rest) > 1 && isNameStart(rest[1]):
		n, x.kind = 1+nameLength(rest[1:]), 'v'
	case isNameStart(c):
		n, x.kind = nameLength(rest), 'w'
	case len(rest) > 1 && strings.Contains("<= >= <> != << >>", rest[:2]) && rest[1] != ' ':
		n, x.kind = 2, 'o'
	case strings.IndexByte("+-*/%<>=|#&~(),", c) >= 0:
		x.kind = 'o'
	default:
		x.fail(fmt.Sprintf("unexpected %q", c), "numbers, :variables, functions and operators")
	}
	x.tok = rest[:n]
	x.pos += n
	switch {
	case x.tok == "!=":
		x.tok = "<>"
	case x.kind == 'w':
		x.tok = strings.ToLower(x.tok)
	}
}

func numberLength(s string) int {
	n := 0
	digits := func() {
		for n < len(s) && isDigit(s[n]) {
			n++
		}
	}
	digits()
	if n < len(s) && s[n] == '.' {
		n++
		digits()
	}
	if n < len(s) && (s[n] == 'e' || s[n] == 'E') {
		m := n + 1
		if m < len(s) && (s[m] == '+' || s[m] == '-') {
			m++
		}
		if m < len(s) && isDigit(s[m]) {
			n = m
			digits()
		}
	}
	return n
}

func (x *exprParser) accept(tok string) bool {
	if x.tok != tok || x.kind == 'v' {
		return false
	}
	x.next()
	return true
}

func (x *exprParser) expect(tok string) {
	if !x.accept(tok) {
		got := "the end of the line"
		if x.tok != "" {
			got = strconv.Quote(x.tok)
		}
		x.fail("unexpected "+got, strconv.Quote(tok))
	}
}

func (x *exprParser) node(at int, op string, kids ...*expr) *expr {
	return &expr{op: op, kids: kids, at: at}
}

// binary parses operators of at least the given level.
func (x *exprParser) binary(lowest int) *expr {
	if x.depth++; x.depth > maxDepth {
		x.fail("the expression is nested too deeply", fmt.Sprintf("%d levels", maxDepth))
	}
	defer func() { x.depth-- }()
	left, limit := x.unary(), math.MaxInt
	for {
		op, at, l := x.tok, x.at, level[x.tok]
		if x.kind == 'v' || x.kind == 'n' || l < lowest || l == 0 {
			return left
		}
		if l > limit {
			x.fail(fmt.Sprintf("unexpected %q: comparisons do not chain", op), "parentheses, AND, OR")
		}
		x.next()
		switch op {
		case "isnull", "notnull":
			left = x.is(at, left, op == "notnull", "null")
		case "is":
			not := x.accept("not")
			what := x.tok
			if what != "null" && what != "true" && what != "false" {
				x.fail(fmt.Sprintf("unexpected %q after IS", what), "NULL, TRUE or FALSE, with or without NOT")
			}
			x.next()
			left = x.is(at, left, not, what)
		default:
			left = x.node(at, op, left, x.binary(l+1))
			if l == levelCompare {
				limit = l - 1
			}
			continue
		}
		limit = l - 1
	}
}

func (x *exprParser) is(at int, e *expr, not bool, what string) *expr {
	e = x.node(at, "is "+what, e)
	if not {
		e = x.node(at, "not", e)
	}
	return e
}

func (x *exprParser) unary() *expr {
	at := x.at
	switch {
	case x.kind == 'w' && x.accept("not"):
		return x.node(at, "not", x.binary(levelNot))
	case x.accept("~"):
		return x.node(at, "#", x.binary(levelBits+1), &expr{op: "const", val: intValue(-1)})
	case x.accept("+"):
		return x.deeper()
	case x.accept("-"):
		if x.tok == "9223372036854775808" {
			x.next()
			return &expr{op: "const", val: intValue(math.MinInt64), at: at}
		}
		return x.node(at, "-", &expr{op: "const", val: intValue(0)}, x.deeper())
	}
	return x.primary()
}

func (x *exprParser) deeper() *expr { return x.binary(levelUnary) }

func (x *exprParser) primary() *expr {
	at, tok := x.at, x.tok
	switch x.kind {
	case 'n':
		x.next()
		return &expr{op: "const", val: x.number(at, tok), at: at}
	case 'v':
		x.next()
		return &expr{op: "var", slot: x.slot(tok[1:]), at: at}
	case 'w':
		return x.word()
	}
	if x.accept("(") {
		e := x.binary(1)
		x.expect(")")
		return e
	}
	if tok == "" {
		x.fail("the expression ends too early", "a number, :variable, function or (")
	}
	x.fail(fmt.Sprintf("unexpected %q", tok), "a number, :variable, function or (")
	return nil
}

func (x *exprParser) number(at int, tok string) value {
	if !strings.ContainsAny(tok, ".eE") {
		i, err := strconv.ParseInt(tok, 10, 64)
		if err != nil {
			panic(x.errorAt(at, tok+" does not fit into 64 bits", "-9223372036854775808 to 9223372036854775807"))
		}
		return intValue(i)
	}
	d, err := strconv.ParseFloat(tok, 64)
	if err != nil {
		panic(x.errorAt(at, tok+" is too large", "numbers below 1.8e308"))
	}
	return doubleValue(d)
}

func (x *exprParser) word() *expr {
	at, tok := x.at, x.tok
	x.next()
	switch tok {
	case "null":
		return &expr{op: "const", val: value{kind: null}, at: at}
	case "true", "false":
		return &expr{op: "const", val: boolValue(tok == "true"), at: at}
	case "case":
		return x.caseWhen(at)
	}
	n, known := arity[tok]
	if !known {
		panic(x.errorAt(at, fmt.Sprintf("%q is no function", tok), functionNames()))
	}
	x.expect("(")
	e := x.node(at, tok)
	for !x.accept(")") {
		if len(e.kids) > 0 {
			x.expect(",")
		}
		e.kids = append(e.kids, x.binary(1))
	}
	if len(e.kids) < n[0] || n[1] >= 0 && len(e.kids) > n[1] {
		want := fmt.Sprintf("%d to %d", n[0], n[1])
		if n[1] == n[0] {
			want = strconv.Itoa(n[0])
		} else if n[1] < 0 {
			want = fmt.Sprintf("at least %d", n[0])
		}
		panic(x.errorAt(at, fmt.Sprintf("%s has %d arguments", tok, len(e.kids)), want))
	}
	return e
}

// caseWhen makes a list of condition, result, condition, result …, default.
func (x *exprParser) caseWhen(at int) *expr {
	e := x.node(at, "case")
	x.expect("when")
	for again := true; again; again = x.accept("when") {
		cond := x.binary(1)
		x.expect("then")
		e.kids = append(e.kids, cond, x.binary(1))
	}
	last := &expr{op: "const", val: value{kind: null}, at: at}
	if x.accept("else") {
		last = x.binary(1)
	}
	x.expect("end")
	e.kids = append(e.kids, last)
	return e
}
