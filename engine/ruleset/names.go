package ruleset

import (
	"strconv"
	"strings"
)

// protocols are the names of layer 4 protocols that iptables and nft write.
var protocols = map[string]uint64{
	"icmp": 1, "igmp": 2, "ipencap": 4, "ipip": 4, "tcp": 6, "egp": 8, "udp": 17, "dccp": 33, "ipv6": 41, "rsvp": 46, "gre": 47,
	"esp": 50, "ipv6-crypt": 50, "ah": 51, "ipv6-auth": 51, "ipv6-icmp": 58, "icmpv6": 58, "icmp6": 58, "ospf": 89, "ospfigp": 89,
	"pim": 103, "comp": 108, "ipcomp": 108, "vrrp": 112, "l2tp": 115, "sctp": 132, "udplite": 136,
}

// protocolNames are the names that both tools take.
var protocolNames = map[uint64]string{1: "icmp", 6: "tcp", 17: "udp", 33: "dccp", 47: "gre", 50: "esp", 51: "ah", 132: "sctp", 136: "udplite"}

// protocolModule is iptables' match of a protocol's own fields.
func protocolModule(name string) string {
	n, ok := lookup(protocols, name)
	switch {
	case ok && n == 58:
		return "icmp6"
	case ok && (n == 1 || n == 6 || n == 17 || n == 33 || n == 132 || n == 136):
		return protocolNames[n]
	}
	return ""
}

// lookup reads a number or a name of a table.
func lookup(names map[string]uint64, s string) (uint64, bool) {
	if n, err := strconv.ParseUint(s, 0, 32); err == nil {
		return n, true
	}
	n, ok := names[strings.ToLower(s)]
	return n, ok
}

// services are the ports whose names people write into rules by hand;
// iptables-save and nft -j write numbers.
var services = map[string]uint64{
	"ftp-data": 20, "ftp": 21, "ssh": 22, "telnet": 23, "smtp": 25, "domain": 53, "bootps": 67, "bootpc": 68, "tftp": 69, "gopher": 70,
	"http": 80, "www": 80, "kerberos": 88, "pop3": 110, "sunrpc": 111, "auth": 113, "ntp": 123, "netbios-ns": 137, "netbios-dgm": 138, "netbios-ssn": 139,
	"imap2": 143, "imap": 143, "snmp": 161, "snmp-trap": 162, "bgp": 179, "ldap": 389, "https": 443, "microsoft-ds": 445, "submissions": 465, "smtps": 465,
	"isakmp": 500, "syslog": 514, "submission": 587, "ipp": 631, "ldaps": 636, "domain-s": 853, "rsync": 873, "imaps": 993, "pop3s": 995, "openvpn": 1194,
	"ms-sql-s": 1433, "nfs": 2049, "mysql": 3306, "ms-wbt-server": 3389, "ipsec-nat-t": 4500, "sip": 5060, "sip-tls": 5061, "xmpp-client": 5222, "mdns": 5353,
	"postgresql": 5432, "x11": 6000, "redis": 6379, "http-alt": 8080, "zabbix-agent": 10050, "zabbix-trapper": 10051,
}

// Types and codes of ICMP by iptables' names; nft's names of types are the
// same apart from those in icmp6Types. A type without a code has code -1.
type icmpName struct {
	typ  uint64
	code int
}

var icmp4Names = map[string]icmpName{
	"echo-reply": {0, -1}, "pong": {0, -1}, "destination-unreachable": {3, -1}, "network-unreachable": {3, 0}, "host-unreachable": {3, 1},
	"protocol-unreachable": {3, 2}, "port-unreachable": {3, 3}, "fragmentation-needed": {3, 4}, "source-route-failed": {3, 5},
	"network-unknown": {3, 6}, "host-unknown": {3, 7}, "network-prohibited": {3, 9}, "host-prohibited": {3, 10},
	"tos-network-unreachable": {3, 11}, "tos-host-unreachable": {3, 12}, "communication-prohibited": {3, 13},
	"host-precedence-violation": {3, 14}, "precedence-cutoff": {3, 15}, "source-quench": {4, -1}, "redirect": {5, -1},
	"network-redirect": {5, 0}, "host-redirect": {5, 1}, "tos-network-redirect": {5, 2}, "tos-host-redirect": {5, 3},
	"echo-request": {8, -1}, "ping": {8, -1}, "router-advertisement": {9, -1}, "router-solicitation": {10, -1}, "time-exceeded": {11, -1},
	"ttl-exceeded": {11, -1}, "ttl-zero-during-transit": {11, 0}, "ttl-zero-during-reassembly": {11, 1}, "parameter-problem": {12, -1},
	"ip-header-bad": {12, 0}, "required-option-missing": {12, 1}, "timestamp-request": {13, -1}, "timestamp-reply": {14, -1},
	"info-request": {15, -1}, "info-reply": {16, -1}, "address-mask-request": {17, -1}, "address-mask-reply": {18, -1},
}

var icmp6Names = map[string]icmpName{
	"destination-unreachable": {1, -1}, "no-route": {1, 0}, "communication-prohibited": {1, 1}, "beyond-scope": {1, 2},
	"address-unreachable": {1, 3}, "port-unreachable": {1, 4}, "failed-policy": {1, 5}, "reject-route": {1, 6}, "packet-too-big": {2, -1},
	"time-exceeded": {3, -1}, "ttl-exceeded": {3, -1}, "ttl-zero-during-transit": {3, 0}, "ttl-zero-during-reassembly": {3, 1},
	"parameter-problem": {4, -1}, "bad-header": {4, 0}, "unknown-header-type": {4, 1}, "unknown-option": {4, 2},
	"echo-request": {128, -1}, "ping": {128, -1}, "echo-reply": {129, -1}, "pong": {129, -1}, "mld-listener-query": {130, -1},
	"mld-listener-report": {131, -1}, "mld-listener-done": {132, -1}, "mld-listener-reduction": {132, -1},
	"router-solicitation": {133, -1}, "nd-router-solicit": {133, -1}, "router-advertisement": {134, -1}, "nd-router-advert": {134, -1},
	"neighbour-solicitation": {135, -1}, "neighbor-solicitation": {135, -1}, "nd-neighbor-solicit": {135, -1},
	"neighbour-advertisement": {136, -1}, "neighbor-advertisement": {136, -1}, "nd-neighbor-advert": {136, -1}, "redirect": {137, -1}, "nd-redirect": {137, -1},
	"router-renumbering": {138, -1}, "ind-neighbor-solicit": {141, -1}, "ind-neighbor-advert": {142, -1}, "mld2-listener-report": {143, -1},
}

// icmpOf reads "3", "3/4" or a name.
func icmpOf(names map[string]icmpName, s string) (icmpName, bool) {
	if n, ok := names[strings.ToLower(s)]; ok {
		return n, true
	}
	typ, code, slash := strings.Cut(s, "/")
	n, err := strconv.ParseUint(typ, 0, 8)
	if err != nil {
		return icmpName{}, false
	}
	out := icmpName{n, -1}
	if slash {
		c, err := strconv.ParseUint(code, 0, 8)
		if err != nil {
			return icmpName{}, false
		}
		out.code = int(c)
	}
	return out, true
}

var tcpFlags = map[string]uint64{"FIN": FlagFIN, "SYN": FlagSYN, "RST": FlagRST, "PSH": FlagPSH, "ACK": FlagACK, "URG": FlagURG, "ECE": FlagECE, "ECN": FlagECE, "CWR": FlagCWR, "ALL": 0x3f, "NONE": 0}

// flagNames are the flags by their bits, from the lowest.
var flagNames = []string{"fin", "syn", "rst", "psh", "ack", "urg", "ecn", "cwr"}

// flagsOf reads "SYN,ACK".
func flagsOf(s string) (bits uint64, ok bool) {
	for f := range strings.SplitSeq(s, ",") {
		b, known := tcpFlags[strings.ToUpper(f)]
		if !known {
			return 0, false
		}
		bits |= b
	}
	return bits, true
}

// dscpNames are the classes of DSCP.
var dscpNames = map[string]uint64{
	"cs0": 0, "cs1": 8, "cs2": 16, "cs3": 24, "cs4": 32, "cs5": 40, "cs6": 48, "cs7": 56, "be": 0, "ef": 46, "le": 1, "va": 44,
	"af11": 10, "af12": 12, "af13": 14, "af21": 18, "af22": 20, "af23": 22, "af31": 26, "af32": 28, "af33": 30, "af41": 34, "af42": 36, "af43": 38,
}
