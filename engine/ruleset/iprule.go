package ruleset

import (
	"errors"
	"slices"
	"strconv"
	"strings"
)

// ipOption is one option of a match or target, with what follows it.
type ipOption struct {
	name string
	not  bool
	args []string
}

// ipModule is a match or target as the line names it, with its options.
type ipModule struct {
	name    string
	options []ipOption
	words   []word // as written, for those that are not understood
}

func (m *ipModule) add(o ipOption, words []word) {
	m.options = append(m.options, o)
	m.words = append(m.words, words...)
}

// generic are the options that need no module, by their short names.
var generic = map[string]string{
	"--protocol": "-p", "--proto": "-p", "--source": "-s", "--src": "-s", "--destination": "-d", "--dst": "-d",
	"--in-interface": "-i", "--out-interface": "-o", "--fragment": "-f", "--match": "-m", "--jump": "-j", "--goto": "-g", "--set-counters": "-c",
}

// arity is how many words follow an option of a module that is understood;
// those not listed take one.
var arity = map[string]int{
	"--syn": 0, "--tcp-flags": 2, "--match-set": 2, "--icase": 0, "--notrack": 0, "--socket-exists": 0, "--limit-iface-in": 0, "--limit-iface-out": 0,
	"--clamp-mss-to-pmtu": 0, "--random": 0, "--random-fully": 0, "--persistent": 0, "--log-ip-options": 0, "--log-tcp-options": 0,
	"--log-tcp-sequence": 0, "--log-uid": 0, "--log-macdecode": 0, "--save-mark": 0, "--restore-mark": 0, "--add-set": 2, "--del-set": 2, "--exist": 0,
	"--queue-bypass": 0, "--queue-cpu-fanout": 0, "--sack-perm": 0, "--timestamp": 0, "--ecn": 0, "--update-counters": 0, "--update-subcounters": 0,
	"--return-nomatch": 0, "--map-set": 2, "--map-mark": 0, "--map-prio": 0, "--map-queue": 0, "--ecn-tcp-remove": 0,
}

// lineParser takes the words of one rule apart.
type lineParser struct {
	p       *ipParser
	rule    *Rule
	words   []word
	i       int
	modules []*ipModule // matches, in their order; the generic ones come first
	proto   *ipModule   // options of the protocol's own match, if -m did not name it
	target  *ipModule
	jump    Kind // Jump or Goto, with target
}

// parts fills a rule from the words behind the chain's name.
func (p *ipParser) parts(r *Rule, words []word) error {
	l := &lineParser{p: p, rule: r, words: words}
	r.Matches = make([]Match, 0, 4) // of most rules: growing would copy
	for l.i < len(l.words) {
		if err := l.next(); err != nil {
			return err
		}
	}
	for _, m := range l.modules {
		l.p.build(r, m)
	}
	if l.target != nil {
		l.p.verdict(r, l.target, l.jump)
	}
	if len(r.Matches) == 0 {
		r.Matches = nil
	}
	return nil
}

func (l *lineParser) fail(reason string) error {
	col := 1
	switch {
	case l.i < len(l.words):
		col = l.words[l.i].col
	case len(l.words) > 0:
		last := l.words[len(l.words)-1]
		col = last.col + len(last.text)
	}
	return l.p.fail(col, reason)
}

func (l *lineParser) next() error {
	start := l.i
	not := l.words[l.i].not()
	if not {
		l.i++
	}
	if l.i == len(l.words) || !l.words[l.i].option() {
		l.i = min(start, len(l.words)-1)
		return l.fail("expected an option, found " + strconv.Quote(l.words[l.i].text))
	}
	name := l.words[l.i].text
	if short := generic[name]; short != "" && !l.opaque() {
		name = short
	}
	switch name {
	case "-p", "-s", "-d", "-i", "-o":
		return l.plain(name, start, not)
	case "-f":
		l.i++
		l.rule.Matches = append(l.rule.Matches, Match{Field: Fragment, Not: not, Text: again(l.words[start:l.i])})
		return nil
	case "-4", "-6":
		l.i++
		return nil
	case "-m":
		return l.module()
	case "-j", "-g":
		return l.jumps(name)
	case "-c":
		return l.setCounters()
	}
	return l.option(name, start, not)
}

// opaque says whether a match was named last that may have an option of the
// same name as a generic one: -m policy --proto.
func (l *lineParser) opaque() bool {
	if len(l.modules) == 0 || l.target != nil {
		return false
	}
	name := l.modules[len(l.modules)-1].name
	_, known := ipMatches[name]
	return !known && name != "comment"
}

// argument takes one word, with the old form "! VALUE" of a negation.
func (l *lineParser) argument(what string, not *bool) (string, error) {
	l.i++
	if not != nil && l.i < len(l.words) && l.words[l.i].not() {
		*not = !*not
		l.i++
	}
	if l.i >= len(l.words) {
		return "", l.fail("the line ends where " + what + " is expected")
	}
	l.i++
	return l.words[l.i-1].text, nil
}

func (l *lineParser) plain(name string, start int, not bool) error {
	v, err := l.argument("the value of "+name, &not)
	if err != nil {
		return err
	}
	m := l.p.plain(name, v, not)
	if m != nil {
		m.Text = again(l.words[start:l.i])
		l.rule.Matches = append(l.rule.Matches, *m)
	}
	if name == "-p" && !not {
		l.proto = &ipModule{name: protocolModule(v)}
	}
	return nil
}

func (l *lineParser) module() error {
	start := l.i
	name, err := l.argument("the name of a match", nil)
	if err != nil {
		return err
	}
	l.modules = append(l.modules, &ipModule{name: name, words: slices.Clone(l.words[start:l.i])})
	return nil
}

func (l *lineParser) jumps(name string) error {
	start := l.i
	if l.target != nil {
		return l.fail("a second target")
	}
	target, err := l.argument("a target", nil)
	if err != nil {
		return err
	}
	l.target, l.jump = &ipModule{name: target, words: slices.Clone(l.words[start:l.i])}, Jump
	if name == "-g" {
		l.jump = Goto
	}
	return nil
}

func (l *lineParser) setCounters() error {
	a, err := l.argument("a count of packets", nil)
	if err != nil {
		return err
	}
	l.i--
	b, err := l.argument("a count of bytes", nil)
	if err != nil {
		return err
	}
	n, err1 := strconv.ParseUint(a, 10, 64)
	m, err2 := strconv.ParseUint(b, 10, 64)
	if err1 != nil || err2 != nil {
		l.i -= 2
		return l.fail("no counters: " + a + " " + b)
	}
	l.rule.Counter = &Counter{Packets: n, Bytes: m}
	return nil
}

// option gives an option to the match or target that it belongs to.
func (l *lineParser) option(name string, start int, not bool) error {
	m := l.owner(name)
	if m == nil {
		return l.fail("option " + name + " without a match or target before it that could have it")
	}
	l.i++
	var args []string
	n, known := arity[name]
	if !known {
		n = 1
	}
	if l.i < len(l.words) && l.words[l.i].not() && n > 0 {
		not = !not
		l.i++
	}
	if understood(m.name, name) {
		if l.i+n > len(l.words) {
			l.i = len(l.words)
			return l.fail("the line ends where the value of " + name + " is expected")
		}
		for range n {
			args = append(args, l.words[l.i].text)
			if over := beyond(name, l.words[l.i].text); over != "" {
				return l.fail(over + " is no port: they end at 65535")
			}
			l.i++
		}
	} else { // its number of values is not known: all up to the next option
		for l.i < len(l.words) && !l.words[l.i].option() && !l.words[l.i].not() {
			args = append(args, l.words[l.i].text)
			l.i++
		}
	}
	m.add(ipOption{name, not, args}, l.words[start:l.i])
	return nil
}

// owner is the module that an option belongs to: the target or match that
// knows it, the protocol's own match, or the one named last.
func (l *lineParser) owner(name string) *ipModule {
	if l.target != nil && understood(l.target.name, name) {
		return l.target
	}
	for i := len(l.modules) - 1; i >= 0; i-- {
		if understood(l.modules[i].name, name) {
			return l.modules[i]
		}
	}
	if m := l.proto; m != nil && understood(m.name, name) {
		m.words = []word{{text: "-m"}, {text: m.name}}
		l.modules = append(l.modules, m)
		return m
	}
	switch {
	case l.target != nil && !plainTargets[l.target.name]:
		return l.target
	case len(l.modules) > 0:
		return l.modules[len(l.modules)-1]
	}
	return nil
}

// beyond is the first number among an option's ports that is none; iptables
// takes some of those and loads what is left of them in 16 bits.
func beyond(option, value string) string {
	switch option {
	case "--sport", "--source-port", "--dport", "--destination-port", "--sports", "--source-ports", "--dports", "--destination-ports", "--ports":
	default:
		return ""
	}
	for _, part := range strings.FieldsFunc(value, func(r rune) bool { return r == ',' || r == ':' }) {
		if n, err := strconv.ParseUint(part, 10, 64); (err == nil || errors.Is(err, strconv.ErrRange)) && n > 65535 {
			return part
		}
	}
	return ""
}
