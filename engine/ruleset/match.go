package ruleset

import "net/netip"

// Field is what of a packet a match looks at.
type Field string

// The fields. In brackets is what of Match holds the values.
const (
	NFProto  Field = "nfproto"  // address family of the packet [Words: ipv4, ipv6]
	Proto    Field = "proto"    // layer 4 protocol [Numbers]
	SAddr    Field = "saddr"    // [Addrs or Set]
	DAddr    Field = "daddr"    // [Addrs or Set]
	SPort    Field = "sport"    // of the protocol that a Proto match of the same rule names [Numbers or Set]
	DPort    Field = "dport"    // [Numbers or Set]
	Port     Field = "port"     // source or destination port (multiport --ports) [Numbers]
	IIf      Field = "iif"      // incoming interface's name; a trailing * stands for any rest [Words or Set]
	OIf      Field = "oif"      // outgoing interface's name [Words or Set]
	CTState  Field = "ctstate"  // [Words: new established related invalid untracked; iptables also snat dnat]
	CTStatus Field = "ctstatus" // [Words: expected seen-reply assured confirmed snat dnat …]
	CTDir    Field = "ctdir"    // [Words: original reply]
	CTMark   Field = "ctmark"   // [Mask, Numbers]
	CTOther  Field = "ct"       // any other key of connection tracking, Module says which
	TCPFlags Field = "tcpflags" // the bits of Mask equal Numbers [Mask, Numbers]; bits as FlagFIN …
	TCPOpt   Field = "tcpopt"   // TCP option is there [Numbers]
	ICMPType Field = "icmp"     // [Numbers]; IPv4
	ICMPCode Field = "icmpcode" // [Numbers]
	ICMP6    Field = "icmpv6"   // type of ICMPv6 [Numbers]
	ICMP6C   Field = "icmpv6c"  // code of ICMPv6 [Numbers]
	NextHdr  Field = "nexthdr"  // of IPv6's first header: not always the protocol [Numbers]
	Fragment Field = "fragment" // not the first fragment of a packet [no values]
	Mark     Field = "mark"     // [Mask, Numbers]
	AddrType Field = "addrtype" // [Words: "src local", "dst broadcast" …]
	Length   Field = "length"   // of the packet with its IP header [Numbers]
	TTL      Field = "ttl"      // or hop limit [Numbers]
	DSCP     Field = "dscp"     // [Numbers]
	PktType  Field = "pkttype"  // [Words: host broadcast multicast other]
	UID      Field = "skuid"    // owner of the sending socket [Numbers]
	GID      Field = "skgid"    // [Numbers]
	Limit    Field = "limit"    // true until a rate is passed [Rate]
	String   Field = "string"   // payload holds a string [Words]
	InSet    Field = "set"      // iptables' --match-set of a set whose type is not known [Set, Words: src, dst]
	Concat   Field = "concat"   // several fields at once [Fields, and Set or Elements]
	Other    Field = "other"    // not understood: Module and Text are all that is known
)

// Bits of TCPFlags.
const (
	FlagFIN = 1 << iota
	FlagSYN
	FlagRST
	FlagPSH
	FlagACK
	FlagURG
	FlagECE
	FlagCWR
)

// Match is one condition on a packet. Where a packet lacks the field (a port
// of a later fragment, a TCP flag of UDP) the match does not hold, be it Not
// or not.
type Match struct {
	Field Field
	Not   bool

	Addrs   []AddrRange // any of them
	Numbers []Range     // any of them
	Words   []string    // any of them
	Mask    uint64      // what of the field is compared; 0: all
	Rate    *Rate

	Set      string    // name of a set that holds the values
	Fields   []Field   // Concat: the parts
	Elements []Element // Concat: the tuples

	Module string // Other, CTOther: iptables' module, or the kind of nft's expression
	Text   string // as written; "" if a program made it
}

// Range is an inclusive range of numbers.
type Range struct{ Lo, Hi uint64 }

// AddrRange is an inclusive range of addresses of one family.
type AddrRange struct{ Lo, Hi netip.Addr }

// Rate is a limit: the match holds until more than Count per Per came, with
// Burst on top.
type Rate struct {
	Count float64
	Bytes bool   // Count and Burst are bytes, not packets
	Per   string // "second", "minute", "hour", "day", "week"
	Burst uint64 // 0: the tool's default (5)
	Over  bool   // holds when the rate is passed instead
}

// Set is a named set or map: an nft set or map, or an ipset.
type Set struct {
	Name     string
	Type     string   // ipset: "hash:ip"; nft: "ipv4_addr . inet_service"
	Fields   []string // the parts of its key: "addr", "port", "proto", "iface", "mark", "mac", "other"
	Verdicts bool     // a map to verdicts
	Map      bool     // a map to data
	Data     string   // of a map: the type of its values
	Flags    []string // nft: interval, timeout, dynamic …; ipset: options as written
	Options  []string // nft: "timeout 60s", "size 65535", "auto-merge" …
	Family   Family   // ipset: ip or ip6 (inet, inet6); nft: its table's
	Elements []Element
	Line     int
	Handle   int
}

// Element is one element of a set or map.
type Element struct {
	Text    string   // the key as written: "10.0.0.0/8", "10.0.0.1 . 22", ipset "10.0.0.1,tcp:22"
	Verdict *Verdict // of a verdict map
	Data    string   // of another map, and ipset's options ("timeout 20 comment …")
}
