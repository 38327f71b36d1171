package ruleset

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// ParseNFT reads what `nft -j list ruleset` wrote, of any version of its
// schema 1; what a newer one adds is kept as Object, Other or OtherAction.
// Errors are of type *SyntaxError.
func ParseNFT(source string, dump []byte) (*Ruleset, error) {
	p := &nftParser{rs: &Ruleset{Tool: NFT, Source: source}, dump: dump, chains: map[string]*Chain{}, tables: map[string]*Table{}}
	p.dec = json.NewDecoder(bytes.NewReader(dump))
	p.dec.UseNumber()
	if err := p.open(); err != nil {
		return nil, err
	}
	for p.dec.More() {
		var o map[string]object
		if err := p.dec.Decode(&o); err != nil {
			return nil, p.broken(err)
		}
		if err := p.object(o); err != nil {
			return nil, err
		}
	}
	for range 2 { // ] and }
		if _, err := p.dec.Token(); err != nil {
			return nil, p.broken(err)
		}
	}
	return p.rs, nil
}

type object = map[string]any

type nftParser struct {
	rs     *Ruleset
	dump   []byte
	dec    *json.Decoder
	tables map[string]*Table
	chains map[string]*Chain
}

// at is the error for a byte of the dump.
func (p *nftParser) at(off int64, reason string) error {
	head := p.dump[:min(max(off, 0), int64(len(p.dump)))]
	return &SyntaxError{Source: p.rs.Source, Line: 1 + bytes.Count(head, []byte("\n")), Column: len(head) - bytes.LastIndexByte(head, '\n'), Reason: reason}
}

func (p *nftParser) here(reason string) error { return p.at(p.dec.InputOffset(), reason) }

func (p *nftParser) broken(err error) error {
	var syntax *json.SyntaxError
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return p.at(int64(len(p.dump)), "the dump ends before its last bracket")
	case errors.As(err, &syntax):
		return p.at(syntax.Offset, syntax.Error())
	}
	return p.here("not an object of nft: " + err.Error())
}

// open reads up to the list of objects: {"nftables": [.
func (p *nftParser) open() error {
	for _, want := range []json.Token{json.Delim('{'), "nftables", json.Delim('[')} {
		tok, err := p.dec.Token()
		if err != nil {
			return p.broken(err)
		}
		if tok != want {
			return p.here(fmt.Sprintf("not the JSON of nft: expected %v, found %v", want, tok))
		}
	}
	return nil
}

func (p *nftParser) object(o map[string]object) error {
	for kind, v := range o {
		switch kind {
		case "metainfo":
			p.rs.Maker = "nft " + str(v, "version")
			if s := str(v, "json_schema_version"); s != "1" {
				return p.here("its JSON has schema " + s + "; this Headroom reads schema 1")
			}
			return nil
		case "table":
			p.table(str(v, "family"), str(v, "name")).Handle = num(v, "handle")
			return nil
		}
		t := p.table(str(v, "family"), str(v, "table"))
		if t.Name == "" {
			return p.here("a " + kind + " without a table")
		}
		switch kind {
		case "chain":
			p.chain(t, v)
		case "rule":
			return p.rule(t, v)
		case "set", "map":
			t.Sets = append(t.Sets, newNFTSet(t.Family, v))
		case "element":
			p.elements(t, v)
		default:
			raw, err := json.Marshal(map[string]object{kind: v})
			if err != nil {
				return p.here(err.Error())
			}
			t.Others = append(t.Others, Object{Kind: kind, Name: str(v, "name"), Text: string(raw)})
		}
	}
	return nil
}

func (p *nftParser) table(family, name string) *Table {
	key := family + " " + name
	t := p.tables[key]
	if t == nil {
		t = &Table{Family: Family(family), Name: name}
		p.tables[key] = t
		if name != "" {
			p.rs.Tables = append(p.rs.Tables, t)
		}
	}
	return t
}

func (p *nftParser) chain(t *Table, v object) {
	c := &Chain{Name: str(v, "name"), Hook: str(v, "hook"), Type: str(v, "type"), Priority: num(v, "prio"), Handle: num(v, "handle")}
	if c.Hook != "" {
		c.Policy = Accept
		if str(v, "policy") == "drop" {
			c.Policy = Drop
		}
	}
	for _, d := range list(v["dev"]) {
		if s, ok := d.(string); ok {
			c.Devices = append(c.Devices, s)
		}
	}
	p.chains[string(t.Family)+" "+t.Name+" "+c.Name] = c
	t.Chains = append(t.Chains, c)
}

func (p *nftParser) rule(t *Table, v object) error {
	c := p.chains[string(t.Family)+" "+t.Name+" "+str(v, "chain")]
	if c == nil {
		return p.here("a rule of chain " + str(v, "chain") + ", which was not declared")
	}
	exprs, ok := v["expr"].([]any)
	if !ok {
		return p.here("a rule without a list of expressions")
	}
	r := &Rule{Handle: num(v, "handle"), Comment: str(v, "comment")}
	n := nftRule{rule: r, family: t.Family}
	for _, e := range exprs {
		n.statement(e)
	}
	n.finish()
	c.Rules = append(c.Rules, r)
	return nil
}

// elements adds elements that are listed apart from their set.
func (p *nftParser) elements(t *Table, v object) {
	for _, s := range t.Sets {
		if s.Name == str(v, "name") {
			s.Elements = append(s.Elements, nftElements(v["elem"], s.Verdicts)...)
		}
	}
}

// partOf is what of Set.Fields a type of nft is.
var partOf = map[string]string{"ipv4_addr": "addr", "ipv6_addr": "addr", "inet_service": "port", "inet_proto": "proto", "ifname": "iface", "iface_index": "iface",
	"mark": "mark", "ether_addr": "mac", "ip saddr": "addr", "ip daddr": "addr", "ip6 saddr": "addr", "ip6 daddr": "addr",
	"tcp dport": "port", "udp dport": "port", "th dport": "port", "tcp sport": "port", "udp sport": "port", "th sport": "port", "meta l4proto": "proto", "iifname": "iface", "oifname": "iface"}

func newNFTSet(family Family, v object) *Set {
	s := &Set{Name: str(v, "name"), Family: family, Handle: num(v, "handle")}
	var parts []string
	switch typ := v["type"].(type) {
	case []any:
		for _, x := range typ {
			parts = append(parts, fmt.Sprint(x))
		}
	case object: // typeof, of nft 1.1
		parts = append(parts, exprText(typ))
	default:
		parts = append(parts, str(v, "type"))
	}
	s.Type = strings.Join(parts, " . ")
	for part := range strings.SplitSeq(s.Type, " . ") {
		f := partOf[part]
		if f == "" {
			f = "other"
		}
		s.Fields = append(s.Fields, f)
	}
	if m, ok := v["map"]; ok {
		s.Map, s.Verdicts = true, m == "verdict"
		s.Data = exprText(m)
	}
	for _, f := range list(v["flags"]) {
		s.Flags = append(s.Flags, fmt.Sprint(f))
	}
	s.Options = setOptions(v)
	s.Elements = nftElements(v["elem"], s.Verdicts)
	return s
}

func setOptions(v object) (out []string) {
	for _, k := range []string{"timeout", "gc-interval"} {
		if s := str(v, k); s != "" {
			out = append(out, k+" "+s+"s")
		}
	}
	for _, k := range []string{"size", "policy"} {
		if s := str(v, k); s != "" {
			out = append(out, k+" "+s)
		}
	}
	if v["auto-merge"] == true {
		out = append(out, "auto-merge")
	}
	for _, st := range list(v["stmt"]) {
		var n nftRule
		n.rule = &Rule{}
		n.statement(st)
		out = append(out, n.texts...)
	}
	return out
}

// nftElements reads the elements of a set or map.
func nftElements(v any, verdicts bool) (out []Element) {
	for _, e := range list(v) {
		pair, ok := e.([]any)
		if !ok || len(pair) != 2 {
			out = append(out, Element{Text: exprText(e)})
			continue
		}
		x := Element{Text: exprText(pair[0])}
		if o, ok := pair[1].(object); ok && verdicts {
			var n nftRule
			n.rule = &Rule{}
			n.statement(o)
			x.Verdict = &n.rule.Verdict
		} else {
			x.Data = exprText(pair[1])
		}
		out = append(out, x)
	}
	return out
}

func str(o object, key string) string {
	switch v := o[key].(type) {
	case string:
		return v
	case json.Number:
		return v.String()
	}
	return ""
}

func num(o object, key string) int {
	n, err := strconv.Atoi(str(o, key))
	if err != nil {
		return 0
	}
	return n
}

// list is v as a list: nft writes a list of one as the thing itself.
func list(v any) []any {
	switch v := v.(type) {
	case nil:
		return nil
	case []any:
		return v
	}
	return []any{v}
}

// only is the one key and value of an object.
func only(v any) (string, any) {
	o, ok := v.(object)
	if !ok || len(o) != 1 {
		return "", nil
	}
	for k, x := range o {
		return k, x
	}
	return "", nil
}
