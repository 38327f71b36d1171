package firewall

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"headroom/change"
	"headroom/engine/fwproof"
	"headroom/engine/ruleset"
	convert "headroom/engine/stateless"
	"headroom/fact"
	"headroom/fail"
	"headroom/host"
	"headroom/probe/firewall"
)

var statelessRecipe = &change.Recipe{
	ID: "firewall.stateless",
	Doc: "Replaces rules that ask connection tracking by rules that do without and keep the policy as far as single packets can tell, and takes all packets " +
		"from tracking. Before it is offered both rule sets are loaded into network namespaces and thousands of packets and conversations, made of the rules' own edges, " +
		"go through the kernel: every difference that statelessness does not explain refuses the plan. Only the tables of the rules are replaced. " +
		"Undone by loading the old tables again; at boot the new ones are loaded once it is confirmed.",
	Args: []change.Arg{
		{Name: "rules", Doc: "files to convert instead of the rules in force, with commas: iptables-save, ip6tables-save, ipset save, nft (also --rules)", Eg: "/etc/iptables/rules.v4,/etc/iptables/rules.v6"},
		{Name: "as", Doc: "what to write: nft or iptables; by itself nft, but iptables where rules have what only iptables has or another program keeps them", Eg: "nft"},
		{Name: "partial", Doc: "yes: keep tracking for all but the local services that no rule needs it for", Eg: "yes"},
		{Name: "dns", Doc: "the only name servers that this machine asks (also --dns). Where rules let UDP out to anybody, with dns, ntp or peers answers are taken from the named hosts alone", Eg: "10.0.0.2,10.0.0.3"},
		{Name: "ntp", Doc: "the only time servers that it asks", Eg: "10.0.0.4"},
		{Name: "peers", Doc: "the only hosts that it asks over other UDP ports, as PORT@ADDRESS", Eg: "514@10.0.0.5"},
	},
	Needs: []fact.Any{},
	Plan: func(*fact.Set, change.Spec) (change.Change, error) {
		return change.Change{}, fail.Hint(errors.New("firewall.stateless is not tried on private servers"), "measure it: headroom lab firewall --rules OLD,NEW, with NEW from headroom plan firewall.stateless --new-rules NEW")
	},
	Work: workStateless,
}

// workStateless reads the rules, converts them, proves the conversion on this
// kernel and returns the steps.
func workStateless(ctx context.Context, r host.Reader, _ *fact.Set, spec change.Spec) (change.Change, error) {
	o, err := statelessOptions(r, spec)
	if err != nil {
		return change.Change{}, err
	}
	old, err := given(ctx, r, spec.Args["rules"])
	if err != nil {
		return change.Change{}, err
	}
	if kept := old.keeper(); kept != "" && o.As == "" && !o.Partial {
		o.As = ruleset.IPTables // that program goes on writing to iptables
	}
	res, err := convert.Convert(old.rules, o)
	if err != nil {
		return change.Change{}, err
	}
	if len(res.Refused) > 0 && !o.Partial {
		return change.Change{}, refusal(old.rules, o, res.Refused)
	}
	rep, err := fwproof.Prove(ctx, fwproof.Input{Old: old.rules, Text: old.text, New: res.Rulesets, Intent: intent(o), Seed: 1})
	if err != nil {
		return change.Change{}, err
	}
	if n := len(rep.Unexpected); n > 0 {
		return change.Change{}, unproved(rep)
	}
	c := change.Change{
		Spec: spec, Subject: "the packet filter", Risk: change.RiskHigh, CutsOff: true, Confirm: 2 * time.Minute,
		Why:     fmt.Sprintf("Filter without connection tracking: its table cannot fill up, and each packet costs less. %d packets in %d conversations went through both rule sets: 0 unexpected differences.", rep.Packets, rep.Conversations),
		RiskWhy: "Rules decide who gets in: without a new connection from outside within the time to confirm, the old ones come back. Connections stay.",
	}
	if o.Partial {
		c.Why = "Take " + services(res.Services) + " from connection tracking, which all else keeps. " + c.Why[strings.Index(c.Why, strconv.Itoa(rep.Packets)):]
	}
	if c.Steps, err = old.steps(res); err != nil {
		return change.Change{}, err
	}
	c.Notes = append(res.Notes, told(rep, res)...)
	if kept := old.keeper(); kept != "" {
		c.Notes = append(c.Notes, kept+" makes rules of its own: what it makes after this plan is not converted, and it may put tracking back when it starts anew.")
	}
	return c, nil
}

func statelessOptions(r host.Reader, spec change.Spec) (o convert.Options, err error) {
	usage := func(format string, args ...any) (convert.Options, error) {
		return o, fail.With(fmt.Errorf(format, args...), fail.Usage)
	}
	if b, err := r.ReadFile("/proc/sys/net/ipv4/ip_local_port_range"); err == nil {
		if _, err := fmt.Sscan(string(b), &o.Ports.Lo, &o.Ports.Hi); err != nil {
			return o, fmt.Errorf("read net.ipv4.ip_local_port_range: %w", err)
		}
	}
	for name, value := range spec.Args {
		switch name {
		case "rules":
		case "as":
			if o.As = ruleset.Tool(value); o.As != ruleset.NFT && o.As != ruleset.IPTables {
				return usage("as=%s: it takes nft or iptables", value)
			}
		case "partial":
			if value != "yes" && value != "no" {
				return usage("partial=%s: it takes yes or no", value)
			}
			o.Partial = value == "yes"
		case "dns", "ntp":
			port := map[string]string{"dns": "53", "ntp": "123"}[name]
			for a := range strings.SplitSeq(value, ",") {
				if err := addPeer(&o, port, a); err != nil {
					return usage("%s=%s: %w", name, value, err)
				}
			}
		case "peers":
			for p := range strings.SplitSeq(value, ",") {
				port, addr, _ := strings.Cut(p, "@")
				if err := addPeer(&o, port, addr); err != nil {
					return usage("peers=%s: %w", value, err)
				}
			}
		default:
			return usage("no argument %q; there are rules, as, partial, dns, ntp, peers", name)
		}
	}
	if spec.Object != "" {
		return usage("%q: firewall.stateless takes no object, only name=value", spec.Object)
	}
	return o, nil
}

func addPeer(o *convert.Options, port, addr string) error {
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return fmt.Errorf("no port: %q; write PORT@ADDRESS", port)
	}
	p, err := netip.ParsePrefix(addr)
	if err != nil {
		a, err := netip.ParseAddr(addr)
		if err != nil {
			return fmt.Errorf("no address or prefix: %q", addr)
		}
		p = netip.PrefixFrom(a, a.BitLen())
	}
	i := slices.IndexFunc(o.Peers, func(x convert.Peer) bool { return uint64(x.Port) == n })
	if i < 0 {
		i = len(o.Peers)
		o.Peers = append(o.Peers, convert.Peer{Port: uint16(n)})
	}
	o.Peers[i].Addrs = append(o.Peers[i].Addrs, ruleset.PrefixRange(p))
	return nil
}

func intent(o convert.Options) fwproof.Intent {
	in := fwproof.Intent{Ports: o.Ports, Peers: map[uint16][]ruleset.AddrRange{}}
	if in.Ports.Hi == 0 {
		in.Ports = convert.DefaultPorts
	}
	for _, p := range o.Peers {
		in.Peers[p.Port] = p.Addrs
	}
	return in
}

// oldRules are the rules to be converted.
type oldRules struct {
	rules []*ruleset.Ruleset
	text  fwproof.Side
	tools []string // by which each of rules is changed
}

// given reads the rules: those of files, or those in force.
func given(ctx context.Context, r host.Reader, files string) (old oldRules, err error) {
	var dumps []firewall.Dump
	if files == "" {
		live, err := firewall.Read(ctx, r)
		if err != nil {
			return old, err
		}
		if u := live.Unread(); len(u) > 0 {
			return old, fmt.Errorf("not all rules could be read: %s", strings.Join(u, "; "))
		}
		dumps = live.Dumps
	} else {
		for _, f := range strings.Split(files, ",") {
			b, err := r.ReadFile(f)
			if err != nil {
				return old, fmt.Errorf("read rules: %w", err)
			}
			dumps = append(dumps, firewall.Dump{Source: f, Text: string(b)})
		}
	}
	var sets []*ruleset.Set
	for _, d := range dumps {
		rs, err := firewall.FromFile(ctx, d.Source, []byte(d.Text))
		if err != nil {
			return old, err
		}
		if rs.Tool == ruleset.IPSet {
			sets = append(sets, rs.Sets...)
			old.text = append(old.text, fwproof.Load{Tool: "ipset", Text: d.Text})
			continue
		}
		old.add(rs, d)
	}
	for _, rs := range old.rules {
		rs.Attach(sets)
	}
	return old, nil
}

// add takes a rule set up, but for nft's view of what iptables keeps in
// nftables, for iptables lists that itself.
func (old *oldRules) add(rs *ruleset.Ruleset, d firewall.Dump) {
	tool := "nft"
	if rs.Tool == ruleset.NFT {
		rs.Tables = slices.DeleteFunc(rs.Tables, func(t *ruleset.Table) bool {
			return slices.ContainsFunc(old.rules, func(o *ruleset.Ruleset) bool {
				return strings.Contains(o.Maker, "nf_tables") && slices.ContainsFunc(o.Tables, func(x *ruleset.Table) bool { return x.Family == t.Family && x.Name == t.Name })
			})
		})
	} else {
		tool = toolOf(rs, d.Source)
	}
	if len(rs.Tables) == 0 {
		return
	}
	old.rules, old.tools = append(old.rules, rs), append(old.tools, tool)
	old.text = append(old.text, textOf(rs, tool, d.Text))
}

// textOf is what is loaded for the proof: as it was given, but of nft, whose
// listing is JSON, what the model writes.
func textOf(rs *ruleset.Ruleset, tool, text string) fwproof.Load {
	if tool != "nft" {
		return fwproof.Load{Tool: tool, Text: text}
	}
	b, _ := rs.NFT() // what cannot be written is refused before the proof
	return fwproof.Load{Tool: "nft", Text: string(b)}
}

// toolOf is the program that the rules of a dump belong to.
func toolOf(rs *ruleset.Ruleset, source string) string {
	tool := "iptables"
	if rs.Tables[0].Family == ruleset.IP6 {
		tool = "ip6tables"
	}
	switch {
	case strings.Contains(source, "-legacy-save"):
		return tool + "-legacy"
	case strings.Contains(rs.Maker, "nf_tables"):
		return tool + "-nft"
	}
	return tool
}

// keeper is a program that keeps rules of its own in iptables; "" if none does.
func (old oldRules) keeper() string {
	for _, rs := range old.rules {
		for _, t := range rs.Tables {
			for _, c := range t.Chains {
				if by := owner(t, c); by != "" && rs.Tool == ruleset.IPTables {
					return by
				}
			}
		}
	}
	return ""
}
