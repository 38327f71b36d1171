package pgscript

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Parse reads a script in pgbench's language; name stands in messages. The
// error is an *Error.
func Parse(name, src string) (*Script, error) {
	p := &parser{Script: &Script{Name: name, src: src}, slots: map[string]int{}}
	for {
		if err := p.skipBlank(); err != nil {
			return nil, err
		}
		if p.pos >= len(src) {
			break
		}
		var err error
		if src[p.pos] == '\\' && !strings.HasPrefix(src[p.pos:], `\;`) {
			err = p.meta()
		} else {
			err = p.statement()
		}
		if err != nil {
			return nil, err
		}
	}
	if n := len(p.ifs); n > 0 {
		return nil, p.errorAt(p.ifs[n-1].at, `\if has no end`, `\endif`)
	}
	if p.pipeline {
		return nil, p.errorAt(p.pipeAt, `\startpipeline has no end`, `\endpipeline`)
	}
	if len(p.steps) == 0 {
		return nil, p.errorAt(0, "the script has no commands", "at least one")
	}
	return p.Script, nil
}

type parser struct {
	*Script
	pos      int
	slots    map[string]int
	ifs      []branch
	pipeline bool
	pipeAt   int
	pipeIfs  int // how many \if were open at \startpipeline
	joined   int // number of steps when branches met last
}

// branch is an open \if.
type branch struct {
	at      int
	pending int   // step whose target is the next branch; -1 after \else
	ends    []int // steps that jump behind \endif
}

// slot is the place of a variable, new if need be.
func (p *parser) slot(name string) int {
	n, ok := p.slots[name]
	if !ok {
		n = len(p.names)
		p.slots[name] = n
		p.names = append(p.names, name)
	}
	return n
}

func (p *parser) statement() error {
	st, err := p.sql()
	if err != nil || st == nil {
		return err
	}
	if len(st.args) > 65535 {
		return p.errorAt(st.at, "the statement has too many variables", "65535")
	}
	p.steps = append(p.steps, *st)
	return nil
}

const metaNames = `\set \sleep \if \elif \else \endif \gset \aset \startpipeline \endpipeline`

// continues tells whether the backslash at i only joins two lines.
func continues(src string, i int) bool {
	rest := src[i+1:]
	return strings.HasPrefix(rest, "\n") || strings.HasPrefix(rest, "\r\n")
}

// meta parses a backslash command, which goes to the end of its line.
func (p *parser) meta() error {
	at := p.pos
	end := at + 1
	for end < len(p.src) && (p.src[end] != '\n' || p.src[end-1] == '\\' || strings.HasSuffix(p.src[:end], "\\\r")) {
		end++
	}
	p.pos++
	n := nameLength(p.src[p.pos:end])
	name := strings.ToLower(p.src[p.pos : p.pos+n])
	p.pos += n
	err := p.command(name, at, end)
	p.pos = end
	return err
}

func (p *parser) command(name string, at, end int) error {
	switch name {
	case "set":
		return p.set(at, end)
	case "sleep":
		return p.sleep(at, end)
	case "gset", "aset":
		return p.rows(name, at, end)
	case "if", "elif":
		e, err := p.parseExpr(p.pos, end)
		if err != nil {
			return err
		}
		return p.branch(name, at, e)
	case "setrandom":
		return p.errorAt(at, `\setrandom is gone from pgbench, too`, `\set NAME random(LOW, HIGH)`)
	case "shell", "setshell":
		return p.errorAt(at, `\`+name+` is refused: scripts run no programs of the system`, metaNames)
	case "else", "endif", "startpipeline", "endpipeline":
		if w, wat := p.word(end); w != "" {
			return p.errorAt(wat, fmt.Sprintf(`unexpected %q behind \%s`, w, name), "the end of the line")
		}
		if name == "else" || name == "endif" {
			return p.branch(name, at, nil)
		}
		return p.pipe(name, at)
	}
	return p.errorAt(at, fmt.Sprintf(`unknown command \%s`, name), metaNames)
}

// word takes the next word of a meta command; "" at its end.
func (p *parser) word(end int) (w string, at int) {
	blank := func() bool {
		return isSpace(p.src[p.pos]) || p.src[p.pos] == '\\' && continues(p.src, p.pos)
	}
	for p.pos < end && blank() {
		p.pos++
	}
	at = p.pos
	for p.pos < end && !blank() {
		p.pos++
	}
	return p.src[at:p.pos], at
}

func (p *parser) set(at, end int) error {
	name, nat := p.word(end)
	if name == "" {
		return p.errorAt(at, `\set needs a name and an expression`, `\set NAME EXPRESSION`)
	}
	if !isNameStart(name[0]) || nameLength(name) != len(name) {
		return p.errorAt(nat, fmt.Sprintf("%.40q is no name of a variable", name), "letters, digits and _, no digit first")
	}
	e, err := p.parseExpr(p.pos, end)
	if err != nil {
		return err
	}
	p.steps = append(p.steps, step{do: setVar, at: at, slot: p.slot(name), expr: e})
	return nil
}

var sleepUnits = map[string]time.Duration{"": time.Second, "s": time.Second, "ms": time.Millisecond, "us": time.Microsecond}

func (p *parser) sleep(at, end int) error {
	const allowed = `\sleep NUMBER or :NAME, then us, ms or s`
	num, nat := p.word(end)
	unit, _ := p.word(end)
	more, _ := p.word(end)
	st := step{do: sleep, at: at}
	switch {
	case strings.HasPrefix(num, ":") && len(num) > 1 && isNameStart(num[1]) && nameLength(num[1:]) == len(num)-1:
		st.expr = &expr{op: "var", slot: p.slot(num[1:]), at: nat}
	default:
		digits := 0
		for digits < len(num) && isDigit(num[digits]) {
			digits++
		}
		n, err := strconv.ParseInt(num[:digits], 10, 32)
		if err != nil || digits < len(num) && unit != "" {
			return p.errorAt(nat, fmt.Sprintf(`%.40q is no time for \sleep`, num), allowed)
		}
		if digits < len(num) { // glued, as in 10ms
			unit = num[digits:]
		}
		st.expr = &expr{op: "const", val: intValue(n), at: nat}
	}
	u, ok := sleepUnits[strings.ToLower(unit)]
	if !ok || more != "" {
		return p.errorAt(nat, fmt.Sprintf(`%.40q is no unit for \sleep`, unit+more), allowed)
	}
	st.unit = u
	p.steps = append(p.steps, st)
	return nil
}

func (p *parser) rows(name string, at, end int) error {
	n := len(p.steps) - 1
	switch {
	case n < 0 || p.steps[n].do != runSQL || p.steps[n].store != discard || p.joins(n):
		return p.errorAt(at, `\`+name+` must follow an SQL statement`, `SELECT …; then \`+name)
	case p.pipeline:
		return p.errorAt(at, `\`+name+` is not possible in a pipeline: its rows come at the end`, `\endpipeline before`)
	}
	prefix, pat := p.word(end)
	if prefix != "" && (!isNameStart(prefix[0]) || nameLength(prefix) != len(prefix)) {
		return p.errorAt(pat, fmt.Sprintf("%.40q is no prefix for variables", prefix), "letters, digits and _, no digit first")
	}
	if w, wat := p.word(end); w != "" {
		return p.errorAt(wat, fmt.Sprintf(`unexpected %.40q behind \%s`, w, name), "one prefix")
	}
	p.steps[n].prefix, p.open = prefix, true
	if p.steps[n].store = storeOne; name == "aset" {
		p.steps[n].store = storeAny
	}
	return nil
}

// joins tells whether branches meet behind step n, so that what follows is not
// only reached from it.
func (p *parser) joins(n int) bool { return p.joined == n+1 }

// branch turns \if and its kin into jumps.
func (p *parser) branch(name string, at int, cond *expr) error {
	if name == "if" {
		p.ifs = append(p.ifs, branch{at: at, pending: len(p.steps)})
		p.steps = append(p.steps, step{do: unless, at: at, expr: cond})
		return nil
	}
	low := 0
	if p.pipeline {
		low = p.pipeIfs
	}
	if len(p.ifs) <= low {
		return p.errorAt(at, `\`+name+` without \if`, `\if before, and on the same side of a pipeline`)
	}
	b := &p.ifs[len(p.ifs)-1]
	if b.pending < 0 && name != "endif" {
		return p.errorAt(at, `\`+name+` behind \else`, `\endif`)
	}
	if name != "endif" { // what was run before ends here
		b.ends = append(b.ends, len(p.steps))
		p.steps = append(p.steps, step{do: jump, at: at})
	}
	if b.pending >= 0 {
		p.steps[b.pending].target = len(p.steps)
	}
	switch name {
	case "elif":
		b.pending = len(p.steps)
		p.steps = append(p.steps, step{do: unless, at: at, expr: cond})
	case "else":
		b.pending = -1
	default:
		for _, i := range b.ends {
			p.steps[i].target = len(p.steps)
		}
		p.ifs = p.ifs[:len(p.ifs)-1]
	}
	p.joined = len(p.steps)
	return nil
}

func (p *parser) pipe(name string, at int) error {
	start := name == "startpipeline"
	switch {
	case start == p.pipeline && start:
		return p.errorAt(at, `\startpipeline inside a pipeline`, `\endpipeline before`)
	case start == p.pipeline:
		return p.errorAt(at, `\endpipeline without \startpipeline`, `\startpipeline before`)
	case !start && len(p.ifs) != p.pipeIfs:
		return p.errorAt(at, `a pipeline must end in the same branch of \if that it began in`, `\endif before`)
	}
	st := step{do: endPipeline, at: at}
	if start {
		st.do, p.pipeAt, p.pipeIfs = startPipeline, at, len(p.ifs)
	}
	p.pipeline = start
	p.steps = append(p.steps, st)
	return nil
}
