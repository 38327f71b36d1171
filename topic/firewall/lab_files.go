package firewall

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"headroom/engine/netns"
	"headroom/engine/packet"
	"headroom/engine/ruleset"
	"headroom/fail"
	"headroom/host"
	"headroom/lab"
)

// noRules is the first arm where rule sets are compared.
const noRules = "no rules"

// compareFiles makes an arm of each file. All of them get the same packets:
// those that the rules of all files are about.
func (w *works) compareFiles(files []string) (lab.Experiment, error) {
	e := lab.Experiment{Arms: []lab.Arm{}}
	w.rows = []*row{{name: noRules, doc: "No rule at all."}}
	var texts []string
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil {
			return e, fmt.Errorf("read --rules: %w", err)
		}
		name := filepath.Base(f)
		for w.has(name) {
			name += " again"
		}
		texts = append(texts, string(raw))
		w.rows = append(w.rows, &row{name: name, doc: "The rules of " + f + ".", rules: []ruleText{loader(string(raw))}})
	}
	for _, r := range w.rows {
		e.Arms = append(e.Arms, lab.Arm{Name: r.name, Doc: r.doc, Run: w.run(r)})
	}
	for i := 2; i < len(w.rows); i++ {
		e.Claims = append(e.Claims, lab.Claim{Text: "rule set against rule set", Arm: w.rows[i].name, Over: w.rows[1].name})
	}
	e.Size = fmt.Sprintf("packets of the rules' own ports and addresses over a wire, %d ms a turn", w.ms)
	e.Setup = func(ctx context.Context, s *lab.Stand, say func(string)) error {
		var t traffic
		for i, text := range texts {
			say("reading what the rules of " + files[i] + " are about")
			rs, err := understand(ctx, files[i], text)
			if err != nil {
				return err
			}
			t.add(rs)
		}
		w.device, w.addrs = t.device(), t.own()
		if err := w.setup(ctx, s, say); err != nil {
			return err
		}
		mix := t.mix(netns.Between().B.Addrs[0].Addr(), w.size)
		for _, p := range w.places {
			p.flood.Mix, p.count = mix, p.received
		}
		return nil
	}
	return e, nil
}

// isIPTables says whether a text is of iptables-save, and for IPv6.
func isIPTables(text string) (yes, v6 bool) {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case line == "":
		case strings.HasPrefix(line, "#"):
			v6 = v6 || strings.Contains(line, "ip6tables")
		default:
			return strings.HasPrefix(line, "*"), v6
		}
	}
	return false, false
}

// loader is how a text is put into a namespace.
func loader(text string) ruleText {
	yes, v6 := isIPTables(text)
	switch {
	case yes:
		tool := "iptables"
		if v6 {
			tool = "ip6tables"
		}
		if kind := "-legacy-restore"; !strings.Contains(text, "(nf_tables)") {
			tool += kind
		} else {
			tool += "-nft-restore"
		}
		return ruleText{argv: []string{tool, "--wait"}, text: fixed(text)}
	case strings.HasPrefix(strings.TrimSpace(text), "{"):
		return ruleText{argv: []string{"nft", "-j", "-f", "-"}, text: fixed(text)}
	}
	return nft(text)
}

// understand reads a rule set; nft's own syntax by way of a namespace, where
// nft loads it and tells it as JSON.
func understand(ctx context.Context, file, text string) (*ruleset.Ruleset, error) {
	yes, v6 := isIPTables(text)
	if yes {
		family := ruleset.IP
		if v6 {
			family = ruleset.IP6
		}
		rs, err := ruleset.ParseIPTables(file, family, []byte(text))
		return rs, fail.With(err, fail.Usage)
	}
	if strings.HasPrefix(strings.TrimSpace(text), "{") {
		rs, err := ruleset.ParseNFT(file, []byte(text))
		return rs, fail.With(err, fail.Usage)
	}
	n, err := netns.New()
	if err != nil {
		return nil, err
	}
	defer n.Close()
	t := loader(text)
	if _, err := n.Run(ctx, host.Cmd{Argv: t.argv, Stdin: strings.NewReader(text)}, 1<<20); err != nil {
		return nil, fail.With(fmt.Errorf("read %s: nft does not take it: %w", file, err), fail.Usage)
	}
	raw, err := n.Run(ctx, host.Cmd{Argv: []string{"nft", "-j", "list", "ruleset"}}, 256<<20)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	return ruleset.ParseNFT(file, raw)
}

// own are single IPv4 destinations that the rules name: the far end has them,
// so that packets to them come to the rules for input.
func (t *traffic) own() (out []netip.Prefix) {
	const most = 32
	for a := range t.dsts {
		if len(out) < most {
			out = append(out, netip.PrefixFrom(a, a.BitLen()))
		}
	}
	return out
}

// flags that a packet of TCP has in turns: one that opens, one that goes on.
var tcpFlags = []uint8{packet.SYN, packet.ACK}
