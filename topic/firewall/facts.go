package firewall

import (
	"net/netip"
	"slices"
	"strings"

	"headroom/check"
	"headroom/engine/ruleset"
	"headroom/probe/firewall"
)

// Addresses of nobody (RFC 5737, RFC 3849) that stand for a host of the internet.
var (
	somebody4 = netip.MustParseAddr("203.0.113.77")
	somebody6 = netip.MustParseAddr("2001:db8:ffff::77")
)

// fromOutside is a packet of somebody on the internet to this machine, with
// the fields of one protocol still to be set.
func fromOutside(n firewall.Network, v6 bool) ruleset.Packet {
	p := ruleset.Packet{Family: ruleset.IP, Src: somebody4, State: "new", ToLocal: true, TTL: 60, IIf: n.Default(v6)}
	if v6 {
		p.Family, p.Src = ruleset.IP6, somebody6
	}
	addr, device, ok := n.Address(v6)
	if ok {
		p.Dst = addr
	}
	if p.IIf == "" {
		p.IIf = device
	}
	return p
}

// gets says what becomes of a packet to this machine, up to the hook input.
func gets(r firewall.Rules, p ruleset.Packet) ruleset.Outcome {
	out := ruleset.Passes
	for _, hook := range []string{"ingress", "prerouting", "input"} {
		o := ruleset.Through(r.Tables(), hook, &p)
		if o.Only(ruleset.Dropped) {
			return ruleset.Dropped
		}
		out |= o
	}
	if out != ruleset.Passes {
		out &^= ruleset.Passes // a rule that may drop it decides
		out |= ruleset.Unclear
	}
	return out
}

// matches says whether a rule on its own holds for a packet: only if nothing
// of it is unclear.
func matches(t *ruleset.Table, r *ruleset.Rule, p ruleset.Packet) bool {
	alone := &ruleset.Chain{Hook: "input", Policy: ruleset.Accept, Rules: []*ruleset.Rule{{Matches: r.Matches, Verdict: ruleset.Verdict{Kind: ruleset.Drop}}}}
	one := &ruleset.Table{Family: t.Family, Chains: []*ruleset.Chain{alone}, Sets: t.Sets}
	return ruleset.Through([]*ruleset.Table{one}, "input", &p).Only(ruleset.Dropped)
}

// rules calls f for each rule of all tables until it answers false.
func rules(r firewall.Rules, f func(t *ruleset.Table, c *ruleset.Chain, x *ruleset.Rule) bool) {
	for _, t := range r.Tables() {
		for _, c := range t.Chains {
			for _, x := range c.Rules {
				if !f(t, c, x) {
					return
				}
			}
		}
	}
}

// tracking is the first rule that needs connection tracking; nil if none does.
func tracking(r firewall.Rules) (found *ruleset.Rule) {
	rules(r, func(t *ruleset.Table, c *ruleset.Chain, x *ruleset.Rule) bool {
		if translates(c, x) || slices.ContainsFunc(x.Matches, asksTracking) || slices.ContainsFunc(x.Actions, func(a ruleset.Action) bool {
			return a.Name == ruleset.SetCTMark || a.Name == ruleset.Helper || a.Name == ruleset.Flow
		}) ||
			x.Verdict.Map != nil && slices.Contains(x.Verdict.Map.Key, ruleset.CTState) {
			found = x
		}
		return found == nil
	})
	return found
}

// asksTracking says whether a match asks the connection tracking table.
func asksTracking(m ruleset.Match) bool {
	switch m.Field {
	case ruleset.CTState, ruleset.CTStatus, ruleset.CTDir, ruleset.CTMark, ruleset.CTOther:
		return true
	case ruleset.Other:
		return strings.HasPrefix(m.Module, "conn") || strings.HasPrefix(m.Module, "ct ") || m.Module == "helper"
	}
	return false
}

// translates says whether a rule translates addresses.
func translates(c *ruleset.Chain, r *ruleset.Rule) bool {
	switch r.Verdict.Kind {
	case ruleset.DNAT, ruleset.SNAT, ruleset.Masquerade, ruleset.Redirect:
		return true
	}
	return c.Type == "nat" && r.Verdict.Kind == ruleset.OtherVerdict
}

// translation is the first rule that translates addresses; nil if none does.
func translation(r firewall.Rules) (found *ruleset.Rule) {
	rules(r, func(_ *ruleset.Table, c *ruleset.Chain, x *ruleset.Rule) bool {
		if translates(c, x) {
			found = x
		}
		return found == nil
	})
	return found
}

// keptOut says whether rules keep a packet out of the connection tracking table.
func keptOut(r firewall.Rules, p ruleset.Packet) (is bool) {
	rules(r, func(t *ruleset.Table, c *ruleset.Chain, x *ruleset.Rule) bool {
		if slices.ContainsFunc(x.Actions, func(a ruleset.Action) bool { return a.Name == ruleset.Notrack }) && (t.Family == p.Family || t.Family == ruleset.Inet) {
			is = matches(t, x, p)
		}
		return !is
	})
	return is
}

// incomplete reports that rules are missing from the picture; what is said of
// the others stays true of them.
func incomplete(r firewall.Rules, out *check.Report) {
	if u := r.Unread(); len(u) > 0 {
		out.Unknown("rules", strings.Join(u, "; "))
	}
}

// owners are the programs that make tables and chains of their own, by how
// their names begin. They make them anew at will, so what is said of them is
// for their makers.
var owners = []struct{ prefix, program string }{
	{"DOCKER", "Docker"}, {"docker", "Docker"}, {"f2b-", "fail2ban"}, {"fail2ban", "fail2ban"}, {"ufw-", "ufw"}, {"ufw6-", "ufw"}, {"firewalld", "firewalld"},
	{"LIBVIRT_", "libvirt"}, {"libvirt_", "libvirt"}, {"KUBE-", "Kubernetes"}, {"kube-", "Kubernetes"}, {"cali-", "Calico"}, {"CILIUM", "Cilium"},
	{"NETAVARK", "Podman"}, {"netavark", "Podman"}, {"CNI-", "Podman"}, {"ts-", "Tailscale"}, {"lxd", "LXD"}, {"incus", "Incus"}, {"crowdsec", "CrowdSec"}, {"sshguard", "sshguard"},
	{"INPUT_ZONES", "firewalld"}, {"FORWARD_IN_ZONES", "firewalld"}, {"FORWARD_OUT_ZONES", "firewalld"}, {"PREROUTING_ZONES", "firewalld"}, {"POSTROUTING_ZONES", "firewalld"},
	{"INPUT_direct", "firewalld"}, {"FORWARD_direct", "firewalld"}, {"OUTPUT_direct", "firewalld"}, {"IN_", "firewalld"}, {"FWDI_", "firewalld"}, {"FWDO_", "firewalld"}, {"PRE_", "firewalld"}, {"POST_", "firewalld"},
}

// owner is the program that made a table or chain; "" for the administrator.
func owner(t *ruleset.Table, c *ruleset.Chain) string {
	for _, o := range owners {
		if strings.HasPrefix(t.Name, o.prefix) || c != nil && strings.HasPrefix(c.Name, o.prefix) {
			return o.program
		}
	}
	return ""
}

// chainName names a chain as a user would find it.
func chainName(t *ruleset.Table, c *ruleset.Chain) string {
	return "chain " + string(t.Family) + " " + t.Name + " " + c.Name
}
