// Package fwproof compares two rule sets by what a real kernel does with
// packets. Both are loaded into network namespaces; the same packets, made from
// the rules' own edges, and conversations of them in their order, go through
// both, and every packet that one lets pass and the other does not is listed.
//
// It is made for conversions to rules without connection tracking. A packet
// that only the new rules let pass is expected if the old ones let that very
// packet pass as part of some conversation (tried on the old rules): a rule set
// that remembers nothing cannot tell the two apart. Every other difference is
// unexpected, but for those that Intent announces.
package fwproof

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"

	"headroom/engine/ruleset"
)

// Input is what is compared.
type Input struct {
	Old, New []*ruleset.Ruleset
	// Text is the old rules as they were given. Without it, or where rates
	// must be taken out, what Old is written as is loaded.
	Text   Side
	Intent Intent
	// Random is how many flows are mixed at random on top; Most is how many
	// flows are tried at most (each is several packets). 0 is 400 and 3000,
	// fewer where there are more than 2000 rules.
	Random, Most int
	Seed         uint64
}

// Report is what came out.
type Report struct {
	Conversations, Packets int
	// Rules is how many the old rule set has, Tried of how many of them packets
	// were made: of a long list some, by chance.
	Rules, Tried int
	// Undeliverable packets arrive nowhere even without any rule, so they say
	// nothing.
	Undeliverable int
	// Accepted is how many packets the old rules let pass.
	Accepted   int
	Groups     []Group      // differences that statelessness or intent explains
	Unexpected []Difference // none if the policy was kept
}

// Difference is one packet that the two rule sets treat differently.
type Difference struct {
	Packet string // in words
	About  string // rule that it was made for
	Before []string
	New    bool // the new rules let it pass, the old ones do not
	Why    string
	step   Step
}

// Group is differences of one kind.
type Group struct {
	Name    string
	Wider   bool // the new rules let more pass
	Meaning string
	Count   int
	Example string
}

// Prove plays the corpus. It fails if the method itself does not hold on this
// kernel: an empty rule set must let nearly all pass and a closed one nothing.
func Prove(ctx context.Context, in Input) (*Report, error) {
	if in.Random == 0 {
		in.Random = 400
	}
	if in.Most == 0 {
		in.Most = 3000
		if n := count(in.Old, nil); n > longList { // each packet is put to each rule
			in.Most = max(300, in.Most*longList/n)
		}
	}
	c := newCorpus(append(slices.Clone(in.Old), in.New...), in.Random, in.Most, rand.New(rand.NewPCG(in.Seed, 1)))
	p := &proof{in: in, corpus: c, rep: &Report{Conversations: len(c.talk), Rules: count(in.Old, nil), Tried: count(in.Old, c.tried)}, aims: aims(in.Old)}
	if err := p.write(); err != nil {
		return nil, fmt.Errorf("prove rules: %w", err)
	}
	for _, c := range c.talk {
		p.rep.Packets += len(c.Steps)
	}
	if err := p.run(ctx); err != nil {
		return nil, fmt.Errorf("prove rules: %w", err)
	}
	return p.rep, nil
}

// longList is how many rules get as many packets as any.
const longList = 2000

// count counts rules, or those of only.
func count(all []*ruleset.Ruleset, only map[*ruleset.Rule]bool) (n int) {
	for _, rs := range all {
		for _, t := range rs.Tables {
			for _, c := range t.Chains {
				for _, r := range c.Rules {
					if only == nil || only[r] {
						n++
					}
				}
			}
		}
	}
	return n
}

type proof struct {
	in Input
	*corpus
	rep   *Report
	old   *machine
	fresh *machine        // with the new rules
	aims  []aim           // of the old rules
	kinds map[sort][]told // see passed
	// the texts that are loaded
	oldText, newText Side
	// what passed without rules, through the old ones and through the new ones
	free, was, is [][]bool
}

// write makes the texts that are loaded.
func (p *proof) write() error {
	old, rates := opened(p.in.Old)
	fresh, _ := opened(p.in.New)
	var err error
	if p.oldText = p.in.Text; rates || p.oldText == nil {
		if p.oldText, err = Written(old); err != nil {
			return err
		}
		for _, x := range p.in.Text { // sets, which rates do not concern
			if x.Tool == "ipset" {
				p.oldText = append(Side{x}, p.oldText...)
			}
		}
	}
	if p.newText, err = Written(fresh); err != nil {
		return err
	}
	for _, x := range p.in.Text {
		if x.Tool == "ipset" {
			p.newText = append(Side{x}, p.newText...)
		}
	}
	return nil
}

// closed is a rule set that lets nothing pass.
const closed = "table inet closed { chain i { type filter hook input priority 0; policy drop; }\nchain f { type filter hook forward priority 0; policy drop; }\nchain o { type filter hook output priority 0; policy drop; }\n}\n"

func (p *proof) run(ctx context.Context) error {
	done, err := p.play(ctx)
	defer done()
	if err != nil {
		return err
	}
	return p.judge(ctx)
}

// play plays the corpus. The machines with the old and the new rules stay, to
// be asked again, until done.
func (p *proof) play(ctx context.Context) (done func(), err error) {
	sides := []Side{nil, {{"nft", closed}}, p.oldText, p.newText}
	labs, got, errs := make([]*machine, len(sides)), make([][][]bool, len(sides)), make([]error, len(sides))
	done = func() {
		for _, l := range labs {
			if l != nil {
				l.Close()
			}
		}
	}
	var wg sync.WaitGroup
	for i, s := range sides {
		wg.Go(func() {
			if labs[i], errs[i] = openMachine(ctx, p.scene, s); errs[i] == nil {
				got[i], errs[i] = labs[i].playAll(ctx, p.talk)
			}
		})
	}
	wg.Wait()
	for i, err := range errs { // one is enough: the others mostly say the same
		switch {
		case err == nil:
		case i < 2:
			return done, err
		case i == 2:
			return done, fmt.Errorf("the rules to be converted: %w", err)
		default:
			return done, fmt.Errorf("the converted rules: %w", err)
		}
	}
	p.free, p.was, p.is, p.old, p.fresh = got[0], got[2], got[3], labs[2], labs[3]
	return done, p.sound(got[1])
}

// sound says whether what was seen can be believed.
func (p *proof) sound(shut [][]bool) error {
	for i, c := range p.free {
		for k, passed := range c {
			if !passed {
				p.rep.Undeliverable++
			}
			if shut[i][k] {
				return fmt.Errorf("check the method: a rule set that drops everything let pass %s", p.talk[i].Steps[k])
			}
		}
	}
	if p.rep.Undeliverable*5 > p.rep.Packets {
		return fmt.Errorf("check the method: without any rule only %d of %d packets arrived", p.rep.Packets-p.rep.Undeliverable, p.rep.Packets)
	}
	return nil
}
