package fwproof

import (
	"cmp"
	"context"
	"net/netip"
	"slices"

	"headroom/engine/packet"
)

// key is what connection tracking tells connections apart by, without the
// direction.
type key struct {
	proto uint8
	a, b  netip.AddrPort
	id    uint32
}

func (p key) ordered() key {
	if p.a.Compare(p.b) > 0 {
		p.a, p.b = p.b, p.a
	}
	return p
}

// keys are the connections that a conversation touches.
func (c Conversation) keys() (out []key) {
	for _, s := range c.Steps {
		p := s.Packet
		if s.About != nil {
			p = *s.About
		}
		k := key{proto: p.Proto, a: netip.AddrPortFrom(p.Src, p.SrcPort), b: netip.AddrPortFrom(p.Dst, p.DstPort)}
		if p.Proto == packet.ICMP || p.Proto == packet.ICMPv6 {
			k.id = p.Rest >> 16
		}
		if k = k.ordered(); !slices.Contains(out, k) {
			out = append(out, k)
		}
	}
	return out
}

// waves shares conversations out so that no two in one wave have a connection
// in common, and orders each by the devices that it goes through. It gives the
// places of the conversations in all.
func waves(all []Conversation) (out [][]int) {
	used := []map[key]bool{}
	size := []int{}
	for i, c := range all {
		ks := c.keys()
		w := 0
		for ; w < len(used); w++ {
			if size[w]+len(c.Steps) <= last && !slices.ContainsFunc(ks, func(k key) bool { return used[w][k] }) {
				break
			}
		}
		if w == len(used) {
			used, size, out = append(used, map[key]bool{}), append(size, 0), append(out, nil)
		}
		for _, k := range ks {
			used[w][k] = true
		}
		size[w] += len(c.Steps)
		out[w] = append(out[w], i)
	}
	for _, w := range out {
		slices.SortStableFunc(w, func(i, j int) int { return cmp.Compare(all[i].path(), all[j].path()) })
	}
	return out
}

func (c Conversation) path() string {
	a, b := c.Steps[0].In, c.Steps[0].Out
	if a > b {
		a, b = b, a
	}
	return a + " " + b
}

// playAll plays conversations and returns which of their packets passed, in
// the same order. No conversation knows of another.
func (l *lab) playAll(ctx context.Context, all []Conversation) ([][]bool, error) {
	r := &recital{lab: l, all: all, passed: make([][]bool, len(all))}
	for i, c := range all {
		r.passed[i] = make([]bool, len(c.Steps))
	}
	for _, w := range waves(all) {
		if err := r.wave(ctx, w); err != nil {
			return nil, err
		}
	}
	return r.passed, r.collect(ctx)
}

// machine is a rule set in one namespace, or in two: one for the packets that
// are the machine's own, and one for those that go through it.
type machine struct{ own, through *lab }

func openMachine(ctx context.Context, s scene, side Side) (*machine, error) {
	own, err := openLab(ctx, s, side)
	if err != nil {
		return nil, err
	}
	m := &machine{own, own}
	if s.apart {
		s.local, s.groups = []netip.Addr{here4, here6}, nil
		if m.through, err = openLab(ctx, s, side); err != nil {
			own.Close()
			return nil, err
		}
	}
	return m, nil
}

// Close gives all up.
func (m *machine) Close() {
	m.own.Close()
	if m.through != m.own {
		m.through.Close()
	}
}

// playAll plays each conversation where it belongs.
func (m *machine) playAll(ctx context.Context, all []Conversation) ([][]bool, error) {
	if m.own == m.through {
		return m.own.playAll(ctx, all)
	}
	var parts [2][]Conversation
	var at [2][]int
	for i, c := range all {
		n := 0
		if slices.ContainsFunc(c.Steps, Step.through) {
			n = 1
		}
		parts[n], at[n] = append(parts[n], c), append(at[n], i)
	}
	out := make([][]bool, len(all))
	for n, l := range []*lab{m.own, m.through} {
		got, err := l.playAll(ctx, parts[n])
		if err != nil {
			return nil, err
		}
		for k, i := range at[n] {
			out[i] = got[k]
		}
	}
	return out, nil
}

// recital is one playing of many conversations.
type recital struct {
	lab    *lab
	all    []Conversation
	passed [][]bool
	sent   [][2]int // conversation and step by the packet's number less one
}

func (r *recital) wave(ctx context.Context, w []int) error {
	steps := 0
	for _, i := range w {
		steps += len(r.all[i].Steps)
	}
	if len(r.sent)+steps > last {
		if err := r.collect(ctx); err != nil {
			return err
		}
	}
	if err := r.lab.forget(); err != nil {
		return err
	}
	return r.lab.ns.Do(func() error {
		for _, i := range w {
			for k, s := range r.all[i].Steps {
				r.sent = append(r.sent, [2]int{i, k})
				if err := r.lab.inject(s, uint32(len(r.sent))); err != nil {
					return err
				}
			}
		}
		return ctx.Err()
	})
}

// collect notes what passed of what was sent since the last time.
func (r *recital) collect(ctx context.Context) error {
	if len(r.sent) == 0 {
		return nil
	}
	in, out, err := r.lab.read(ctx)
	if err != nil {
		return err
	}
	for n, p := range r.sent {
		s, id := r.all[p[0]].Steps[p[1]], uint32(n+1)
		comes, goes := s.Out == "" || s.Out == "lo", s.Out != ""
		r.passed[p[0]][p[1]] = (!comes || in.all(id, s)) && (!goes || out.all(id, s))
	}
	r.sent = r.sent[:0]
	return r.lab.unsee(ctx)
}
