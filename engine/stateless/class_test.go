package stateless

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"headroom/engine/ruleset"
)

// The kernel's table tcp_valid_flags.
var kernelValid = []uint64{syn, syn | urg, syn | ack, rst, rst | ack, fin | ack, fin | ack | urg, ack, ack | urg}

func TestFlagClasses(t *testing.T) {
	sorted := slices.Sorted(slices.Values(kernelValid))
	valid := values(append(slices.Clone(forward), answering...))
	if !slices.Equal(valid, sorted) {
		t.Errorf("valid: %x, the kernel's: %x", valid, sorted)
	}
	bad := values(invalid)
	for v := range uint64(64) {
		if v&^five == 0 && slices.Contains(bad, v) == slices.Contains(sorted, v) {
			t.Errorf("%x is both valid and invalid, or neither", v)
		}
	}
	if got := values(append(slices.Clone(beginning), lost...)); !slices.Equal(got, sorted) {
		t.Errorf("what begins and what is lost: %x, the kernel's valid: %x", got, sorted)
	}
	for _, v := range values(opening) {
		if slices.Contains(values(answering), v) {
			t.Errorf("%x opens and answers", v)
		}
	}
}

// iptables has a rule for each cube, nft one with a list: both mean the same.
func TestSegmentsMeanTheSame(t *testing.T) {
	for _, cs := range [][]cube{opening, ongoing, answering, forward, invalid, beginning, lost} {
		one := segments(ruleset.NFT, cs)
		for v := range uint64(64) {
			holds := func(ms []ruleset.Match) bool {
				return slices.ContainsFunc(ms, func(m ruleset.Match) bool { return in(m.Numbers, v&m.Mask) })
			}
			if holds(one) != holds(segments(ruleset.IPTables, cs)) {
				t.Errorf("%x: %v", v, cs)
			}
		}
	}
}

func ranges(t *rapid.T, name string) (out []ruleset.Range) {
	for range rapid.IntRange(1, 4).Draw(t, name) {
		lo := rapid.Uint64Range(0, 30).Draw(t, "lo")
		out = append(out, ruleset.Range{Lo: lo, Hi: lo + rapid.Uint64Range(0, 6).Draw(t, "more")})
	}
	return out
}

// A conjunction holds for a number if and only if both its parts do.
func TestAnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := ruleset.Match{Field: ruleset.DPort, Numbers: ranges(t, "a"), Not: rapid.Bool().Draw(t, "not a")}
		b := ruleset.Match{Field: ruleset.DPort, Numbers: ranges(t, "b"), Not: rapid.Bool().Draw(t, "not b")}
		both, ok := conj{a}.and(b)
		for n := range uint64(40) {
			want := in(a.Numbers, n) != a.Not && in(b.Numbers, n) != b.Not
			got := ok
			for _, m := range both {
				got = got && in(m.Numbers, n) != m.Not
			}
			if got != want {
				t.Fatalf("%d: %v, want %v: %v and %v make %v, %v", n, got, want, a, b, both, ok)
			}
		}
	})
}

func TestUnfoldKeepsOrder(t *testing.T) {
	accept, drop := ruleset.Verdict{Kind: ruleset.Accept}, ruleset.Verdict{Kind: ruleset.Drop}
	port := func(n uint64) conj { return conj{numbers(ruleset.Proto, tcp), numbers(ruleset.DPort, n)} }
	old := ruleset.Match{Field: ruleset.CTState, Words: []string{"established"}}
	tb := &table{Table: &ruleset.Table{Family: ruleset.IP, Name: "filter", Chains: []*ruleset.Chain{
		{Name: "OUTPUT", Hook: "output", Policy: ruleset.Drop, Rules: []*ruleset.Rule{
			{Matches: conj{old}, Verdict: accept},
			{Matches: port(25), Verdict: ruleset.Verdict{Kind: ruleset.Jump, Chain: "mail"}},
			{Matches: conj{numbers(ruleset.Proto, tcp)}, Verdict: accept},
		}},
		{Name: "mail", Rules: []*ruleset.Rule{
			{Matches: conj{{Field: ruleset.OIf, Words: []string{"eth1"}}}, Verdict: ruleset.Verdict{Kind: ruleset.Return}},
			{Verdict: drop},
		}},
	}}, from: &ruleset.Ruleset{Tool: ruleset.NFT}, conv: &converter{}}
	ls, err := tb.unfold(tb.Chains[0])
	if err != nil || len(ls) != 3 {
		t.Fatalf("%v, %v", ls, err)
	}
	if l := ls[0]; l.accept || !l.when.has(ruleset.OIf) || !l.when[len(l.when)-1].Not {
		t.Errorf("port 25 must be refused unless it leaves by eth1: %+v", l)
	}
	if !ls[1].accept || ls[2].accept || len(ls[2].when) > 0 {
		t.Errorf("then all TCP, then nothing: %+v", ls[1:])
	}
}

// What RETURN leaves a base chain with meets its policy, whatever rules follow
// one that takes all others.
func TestUnfoldReturnToPolicy(t *testing.T) {
	const rules = "*filter\n:INPUT DROP [0:0]\n:OUTPUT ACCEPT [0:0]\n-A INPUT -m conntrack --ctstate ESTABLISHED -j ACCEPT\n" +
		"-A OUTPUT -d 192.0.2.7/32 -j RETURN\n-A OUTPUT -j DROP\n-A OUTPUT -p udp -j LOG\nCOMMIT\n"
	rs, err := ruleset.ParseIPTables("rules", ruleset.IP, []byte(rules))
	if err != nil {
		t.Fatal(err)
	}
	tb := &table{Table: rs.Tables[0], from: rs, conv: &converter{}}
	ls, err := tb.unfold(tb.chain("OUTPUT"))
	if err != nil || !slices.ContainsFunc(ls, func(l leaf) bool { return l.accept && l.when.has(ruleset.DAddr) }) {
		t.Errorf("%+v, %v", ls, err)
	}
}

// Chains that jump twice to the next would be looked at 2^30 times.
func TestUnfoldEnds(t *testing.T) {
	var b strings.Builder
	b.WriteString("*filter\n:INPUT DROP [0:0]\n:OUTPUT DROP [0:0]\n")
	for i := range 31 {
		fmt.Fprintf(&b, ":c%d - [0:0]\n", i)
	}
	b.WriteString("-A INPUT -m conntrack --ctstate ESTABLISHED -j ACCEPT\n-A OUTPUT -j c0\n")
	for i := range 30 {
		fmt.Fprintf(&b, "-A c%d -j c%d\n-A c%d -j c%d\n", i, i+1, i, i+1)
	}
	b.WriteString("-A c30 -p tcp -j LOG\nCOMMIT\n")
	rs, err := ruleset.ParseIPTables("rules", ruleset.IP, []byte(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Convert([]*ruleset.Ruleset{rs}, Options{}); err == nil || !strings.Contains(err.Error(), "unfolds into more than") {
		t.Error(err)
	}
}
