package fwproof

import (
	"context"
	"fmt"
	"slices"

	"headroom/engine/netns"
	"headroom/engine/ruleset"
	"headroom/host"
)

// Written writes rule sets for the tools that load them. It fails, naming the
// rule, if one cannot be written.
func Written(all []*ruleset.Ruleset) (Side, error) {
	var out Side
	add := func(tool string, text []byte, missing []ruleset.Unwritten) error {
		if len(missing) > 0 {
			return fmt.Errorf("write rules for %s: %s", tool, missing[0])
		}
		out = append(out, Load{tool, string(text)})
		return nil
	}
	for _, rs := range all {
		if rs.Tool == ruleset.NFT {
			text, missing := rs.NFT()
			if err := add("nft", text, missing); err != nil {
				return nil, err
			}
			continue
		}
		for _, f := range []ruleset.Family{ruleset.IP, ruleset.IP6} {
			if rs.Tool != ruleset.IPTables || !slices.ContainsFunc(rs.Tables, func(t *ruleset.Table) bool { return t.Family == f }) {
				continue
			}
			text, missing := rs.IPTables(f)
			if err := add(map[ruleset.Family]string{ruleset.IP: "iptables", ruleset.IP6: "ip6tables"}[f], text, missing); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// opened is a copy of rule sets without rates: the proof is about packets that
// come within them. A rule for those beyond is left out.
func opened(in []*ruleset.Ruleset) (out []*ruleset.Ruleset, any bool) {
	for _, rs := range in {
		one := *rs
		one.Tables = nil
		for _, t := range rs.Tables {
			tt := *t
			tt.Chains = nil
			for _, c := range t.Chains {
				cc := *c
				cc.Rules = nil
				for _, r := range c.Rules {
					x, changed := unlimited(r)
					any = any || changed
					if x != nil {
						cc.Rules = append(cc.Rules, x)
					}
				}
				tt.Chains = append(tt.Chains, &cc)
			}
			one.Tables = append(one.Tables, &tt)
		}
		out = append(out, &one)
	}
	return out, any
}

// unlimited is a rule without its rates; nil if it is for what goes beyond.
func unlimited(r *ruleset.Rule) (out *ruleset.Rule, changed bool) {
	one := *r
	one.Matches = nil
	for _, m := range r.Matches {
		switch {
		case m.Field == ruleset.Limit && m.Rate != nil:
			if m.Not != m.Rate.Over {
				return nil, true
			}
			changed = true
		default:
			one.Matches = append(one.Matches, m)
		}
	}
	if !changed {
		return r, false
	}
	one.Text = ""
	one.Actions = slices.Clone(r.Actions)
	for i := range one.Actions {
		one.Actions[i].Before = min(one.Actions[i].Before, len(one.Matches))
	}
	if one.Counter != nil {
		c := *one.Counter
		c.Before = min(c.Before, len(one.Matches))
		one.Counter = &c
	}
	return &one, true
}

// ReadNFT loads rules of nft's syntax into a namespace of their own and returns
// them as `nft -j list ruleset` does.
func ReadNFT(ctx context.Context, text string) ([]byte, error) {
	ns, err := netns.New()
	if err != nil {
		return nil, err
	}
	defer ns.Close()
	l := &lab{ns: ns}
	if err := l.load(ctx, Side{{"nft", text}}); err != nil {
		return nil, err
	}
	return ns.Run(ctx, host.Cmd{Argv: []string{"nft", "-j", "list", "ruleset"}}, 64<<20)
}
