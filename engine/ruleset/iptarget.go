package ruleset

import (
	"strconv"
	"strings"
)

// plainTargets take no options.
var plainTargets = map[string]bool{"ACCEPT": true, "DROP": true, "RETURN": true}

// ipTargets are the targets that are understood.
var ipTargets = map[string]Kind{
	"ACCEPT": Accept, "DROP": Drop, "RETURN": Return, "REJECT": Reject, "QUEUE": Queue, "NFQUEUE": Queue,
	"DNAT": DNAT, "SNAT": SNAT, "MASQUERADE": Masquerade, "REDIRECT": Redirect, "TPROXY": TProxy, "SYNPROXY": SynProxy,
	"LOG": Continue, "NFLOG": Continue, "MARK": Continue, "CONNMARK": Continue, "CT": Continue, "NOTRACK": Continue, "TRACE": Continue,
	"TCPMSS": Continue, "SET": Continue, "DSCP": Continue, "TOS": Continue, "TTL": Continue, "HL": Continue, "CHECKSUM": Continue, "CLASSIFY": Continue,
	"ECN": Continue,
}

var targetOptions = map[string]string{
	"REJECT": "--reject-with", "NFQUEUE": "--queue-num --queue-balance --queue-bypass --queue-cpu-fanout",
	"DNAT": "--to-destination --random --random-fully --persistent", "SNAT": "--to-source --random --random-fully --persistent",
	"MASQUERADE": "--to-ports --random --random-fully", "REDIRECT": "--to-ports --random", "TPROXY": "--on-port --on-ip --tproxy-mark",
	"SYNPROXY": "--mss --wscale --sack-perm --timestamp --ecn",
	"LOG":      "--log-level --log-prefix --log-tcp-sequence --log-tcp-options --log-ip-options --log-uid --log-macdecode",
	"NFLOG":    "--nflog-group --nflog-prefix --nflog-range --nflog-size --nflog-threshold",
	"MARK":     "--set-mark --set-xmark --or-mark --and-mark --xor-mark", "CONNMARK": "--set-mark --set-xmark --or-mark --and-mark --xor-mark --save-mark --restore-mark --nfmask --ctmask --mask",
	"CT": "--notrack --helper --ctevents --expevents --zone --zone-orig --zone-reply --timeout", "TCPMSS": "--set-mss --clamp-mss-to-pmtu",
	"SET": "--add-set --del-set --exist --timeout --map-set --map-mark --map-prio --map-queue", "DSCP": "--set-dscp --set-dscp-class", "TOS": "--set-tos --and-tos --or-tos --xor-tos",
	"TTL": "--ttl-set --ttl-dec --ttl-inc", "HL": "--hl-set --hl-dec --hl-inc", "CHECKSUM": "--checksum-fill", "CLASSIFY": "--set-class",
	"ECN": "--ecn-tcp-remove --ecn-tcp-cwr --ecn-tcp-ece --ecn-ip-ect",
}

// verdict puts the target into the rule.
func (p *ipParser) verdict(r *Rule, m *ipModule, jump Kind) {
	text := again(m.words)
	if p.chains[m.name] != nil {
		r.Verdict = Verdict{Kind: jump, Chain: m.name, Text: text}
		return
	}
	kind, ok := ipTargets[m.name]
	args := map[string]string{}
	for _, o := range m.options {
		ok = ok && understood(m.name, o.name) && !o.not
		args[strings.TrimPrefix(o.name, "--")] = strings.Join(o.args, " ")
	}
	if !ok || jump == Goto {
		r.Verdict = Verdict{Kind: OtherVerdict, Text: text}
		return
	}
	if kind != Continue {
		with := args["to-destination"] + args["to-source"] + args["to-ports"]
		if kind == Reject {
			with = rejectWith(args["reject-with"])
		}
		r.Verdict = Verdict{Kind: kind, With: with, Text: text}
		return
	}
	a := ipAction(m.name, args)
	a.Text = text
	r.Actions = append(r.Actions, a)
}

// rejects are the answers of REJECT in nft's words.
var rejects = map[string]string{
	"": "", "tcp-reset": "tcp reset", "tcp-rst": "tcp reset",
	"icmp-net-unreachable": "icmp net-unreachable", "net-unreach": "icmp net-unreachable", "icmp-host-unreachable": "icmp host-unreachable", "host-unreach": "icmp host-unreachable",
	"icmp-port-unreachable": "icmp port-unreachable", "port-unreach": "icmp port-unreachable", "icmp-proto-unreachable": "icmp prot-unreachable", "proto-unreach": "icmp prot-unreachable",
	"icmp-net-prohibited": "icmp net-prohibited", "net-prohib": "icmp net-prohibited", "icmp-host-prohibited": "icmp host-prohibited", "host-prohib": "icmp host-prohibited",
	"icmp-admin-prohibited": "icmp admin-prohibited", "admin-prohib": "icmp admin-prohibited",
	"icmp6-no-route": "icmpv6 no-route", "no-route": "icmpv6 no-route", "icmp6-adm-prohibited": "icmpv6 admin-prohibited", "adm-prohibited": "icmpv6 admin-prohibited",
	"icmp6-addr-unreachable": "icmpv6 addr-unreachable", "addr-unreach": "icmpv6 addr-unreachable", "icmp6-port-unreachable": "icmpv6 port-unreachable",
	"icmp6-policy-fail": "icmpv6 policy-fail", "policy-fail": "icmpv6 policy-fail", "icmp6-reject-route": "icmpv6 reject-route", "reject-route": "icmpv6 reject-route",
}

// rejectWith is the answer in nft's words; one that is not known is kept as written.
func rejectWith(s string) string {
	if w, ok := rejects[s]; ok {
		return w
	}
	return s
}

func ipAction(target string, args map[string]string) Action {
	a := Action{Args: args}
	switch target {
	case "LOG":
		a.Name = Log
	case "NFLOG":
		a.Name = NFLog
	case "TRACE":
		a.Name = Trace
	case "TCPMSS":
		a.Name = ClampMSS
	case "NOTRACK":
		a.Name = Notrack
	case "CT":
		a.Name = ctAction(args)
	case "SET":
		a.Name, a.Set = AddToSet, args["add-set"]
		if a.Set == "" {
			a.Name, a.Set = DelFromSet, args["del-set"]
		}
		if a.Set, _, _ = strings.Cut(a.Set, " "); a.Set == "" {
			a.Name = OtherAction
		}
	case "MARK", "CONNMARK":
		a.Name = SetMark
		if target == "CONNMARK" {
			a.Name = SetCTMark
		}
		var ok bool
		if a.Value, a.Mask, ok = setMark(args); !ok {
			a.Name = OtherAction
		}
	default:
		a.Name = Mangle
	}
	return a
}

func ctAction(args map[string]string) string {
	_, notrack := args["notrack"]
	_, helper := args["helper"]
	switch {
	case notrack && len(args) == 1:
		return Notrack
	case helper && len(args) == 1:
		return Helper
	}
	return OtherAction
}

// setMark turns the ways to set a mark into one: mark &^ mask ^ value.
func setMark(args map[string]string) (value, mask uint64, ok bool) {
	const all = 0xffffffff
	if len(args) != 1 {
		return 0, 0, false
	}
	for name, s := range args {
		a, b, slash := strings.Cut(s, "/")
		v, err := strconv.ParseUint(a, 0, 32)
		m := uint64(all)
		if slash && err == nil {
			m, err = strconv.ParseUint(b, 0, 32)
		}
		if err != nil {
			return 0, 0, false
		}
		switch name {
		case "set-xmark":
			return v, m, true
		case "set-mark":
			return v, m | v, true
		case "or-mark":
			return v, v, true
		case "and-mark":
			return 0, all &^ v, true
		case "xor-mark":
			return v, 0, true
		}
	}
	return 0, 0, false
}
