package firewall

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"headroom/engine/netns"
	"headroom/engine/packet"
	"headroom/engine/ruleset"
	"headroom/fail"
	"headroom/lab"
	"headroom/probe/firewall"
)

// noRules is the first arm where rule sets are compared.
const noRules = "no rules"

// compareFiles makes an arm of each file. All of them get the same packets:
// those that the rules of all files are about.
func (w *works) compareFiles(files []string) (lab.Experiment, error) {
	e := lab.Experiment{Ceiling: true}
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
		w.rows = append(w.rows, &row{name: name, doc: "The rules of " + f + ".", rules: []ruleText{loader(string(raw))}, file: true})
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

// understand reads a rule set.
func understand(ctx context.Context, file, text string) (*ruleset.Ruleset, error) {
	rs, err := firewall.FromFile(ctx, file, []byte(text))
	switch {
	case errors.Is(err, fail.ErrDenied):
		return nil, err
	case err != nil:
		return nil, fail.With(err, fail.Usage)
	case rs.Tool == ruleset.IPSet:
		return nil, fail.With(fmt.Errorf("read rules of %s: it holds address sets, no rules", file), fail.Usage)
	}
	return rs, nil
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
