package nginx

import (
	"slices"
	"strconv"
	"strings"
)

// Format reads lines of an access log as its log_format wrote them.
type Format struct {
	parts []part
	vars  map[string]int // place among the parts
}

// part is a variable and the text that ends it.
type part struct {
	variable string // "" for text at the start
	until    string // "" for the end of the line
}

// ParseFormat reads the text of a log_format. It may not be Usable.
func ParseFormat(text string) *Format {
	f := &Format{vars: map[string]int{}}
	now := part{}
	for len(text) > 0 {
		i := strings.IndexByte(text, '$')
		if i < 0 {
			i = len(text)
		}
		now.until += text[:i]
		text = text[i:]
		if text == "" {
			break
		}
		f.parts = append(f.parts, now)
		var name string
		name, text = variable(text[1:])
		f.vars[name] = len(f.parts)
		now = part{variable: name}
	}
	f.parts = append(f.parts, now)
	return f
}

// variable reads a name after its $.
func variable(s string) (name, rest string) {
	if inner, ok := strings.CutPrefix(s, "{"); ok {
		if name, rest, ok := strings.Cut(inner, "}"); ok {
			return name, rest
		}
	}
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c != '_' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
			return s[:i], s[i:]
		}
	}
	return s, ""
}

// Has says whether lines hold a variable.
func (f *Format) Has(name string) bool { _, ok := f.vars[name]; return ok }

// Usable says whether lines tell what is counted, and where each value ends.
func (f *Format) Usable() bool {
	for i, p := range f.parts {
		if p.variable != "" && p.until == "" && i+1 < len(f.parts) {
			return false
		}
	}
	return f.Has("status") && f.Has("request_time") && f.Has("upstream_addr") && f.Has("upstream_response_time")
}

// cut finds the values of a line; false if it does not have the form.
func (f *Format) cut(line string, values []string) bool {
	for i, p := range f.parts {
		if p.variable == "" { // what comes before the first one
			if !strings.HasPrefix(line, p.until) {
				return false
			}
			line = line[len(p.until):]
			continue
		}
		if p.until == "" { // the last one
			values[i] = line
			return true
		}
		n := strings.Index(line, p.until)
		for n >= 0 && strings.HasPrefix(p.variable, "upstream_") && listGoesOn(line[:n], line[n:]) {
			more := strings.Index(line[n+1:], p.until)
			if more < 0 {
				return false
			}
			n += 1 + more
		}
		if n < 0 {
			return false
		}
		values[i] = line[:n]
		line = line[n+len(p.until):]
	}
	return line == ""
}

// listGoesOn says whether a blank is within a list of upstreams, "a, b : c",
// rather than at its end.
func listGoesOn(before, after string) bool {
	return strings.HasPrefix(after, " ") && (strings.HasSuffix(before, ",") || strings.HasSuffix(before, " :") || strings.HasPrefix(after, " : "))
}

// Attempt is one try of a request at one upstream server.
type Attempt struct {
	Addr                    string
	Status                  int     // 0 where it sent none
	Connect, Header, Answer float64 // seconds; 0 where not told
}

// Request is one line.
type Request struct {
	Status   int
	Seconds  float64
	Bytes    float64
	Attempts []Attempt
}

// Parser reads lines of one format. It is not safe for concurrent use.
type Parser struct {
	f      *Format
	values []string
	lists  [5][]string
}

// NewParser returns a parser for a usable format.
func NewParser(f *Format) *Parser { return &Parser{f: f, values: make([]string, len(f.parts))} }

// Parse reads one line into r, whose attempts are used again; false if the
// line does not have the form.
func (p *Parser) Parse(line string, r *Request) bool {
	if !p.f.cut(line, p.values) {
		return false
	}
	var ok1, ok2 bool
	r.Status, ok1 = status(p.value("status"))
	r.Seconds, ok2 = seconds(p.value("request_time"))
	if !ok1 || !ok2 || r.Status == 0 {
		return false
	}
	r.Bytes = 0
	for _, name := range []string{"bytes_sent", "body_bytes_sent"} {
		if n, err := strconv.ParseUint(p.value(name), 10, 53); err == nil {
			r.Bytes = float64(n)
			break
		}
	}
	return p.attempts(r)
}

func (p *Parser) value(name string) string {
	if i, ok := p.f.vars[name]; ok {
		return p.values[i]
	}
	return ""
}

// listed are the variables that hold one figure for each attempt.
var listed = [5]string{"upstream_addr", "upstream_status", "upstream_connect_time", "upstream_header_time", "upstream_response_time"}

func (p *Parser) attempts(r *Request) bool {
	r.Attempts = r.Attempts[:0]
	for i, name := range listed {
		p.lists[i] = items(p.value(name), p.lists[i][:0])
	}
	for i, addr := range p.lists[0] {
		if addr == "-" || addr == "" {
			continue
		}
		a := Attempt{Addr: addr}
		var ok [4]bool
		a.Status, ok[0] = status(nth(p.lists[1], i))
		a.Connect, ok[1] = seconds(nth(p.lists[2], i))
		a.Header, ok[2] = seconds(nth(p.lists[3], i))
		a.Answer, ok[3] = seconds(nth(p.lists[4], i))
		if ok != [4]bool{true, true, true, true} {
			return false
		}
		r.Attempts = append(r.Attempts, a)
	}
	return true
}

// items cuts "a, b : c": a comma between servers that were tried, a colon
// between groups.
func items(s string, out []string) []string {
	for s != "" {
		i := strings.Index(s, ", ")
		j := strings.Index(s, " : ")
		switch {
		case i < 0 && j < 0:
			return append(out, s)
		case j < 0 || i >= 0 && i < j:
			out, s = append(out, s[:i]), s[i+2:]
		default:
			out, s = append(out, s[:j]), s[j+3:]
		}
	}
	return out
}

func nth(list []string, i int) string {
	if i < len(list) {
		return list[i]
	}
	return "-"
}

// status reads a status; 0 for "-", which is no status.
func status(s string) (int, bool) {
	if s == "-" || s == "" {
		return 0, true
	}
	n, err := strconv.Atoi(s)
	return n, err == nil && n >= 0 && n < 1000
}

// seconds reads a time; 0 for "-". More than a year is no time of a request.
func seconds(s string) (float64, bool) {
	if s == "-" || s == "" {
		return 0, true
	}
	v, err := strconv.ParseFloat(s, 64)
	return v, err == nil && v >= 0 && v < 366*86400
}

// Same says whether two formats are the same.
func (f *Format) Same(g *Format) bool { return slices.Equal(f.parts, g.parts) }
