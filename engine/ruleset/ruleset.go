// Package ruleset is the model of a packet filter's rules, and reads and writes
// it: iptables-save, ip6tables-save and ipset save as text, nftables as the
// JSON of `nft -j list ruleset`. It is pure: bytes in, model out.
//
// Both worlds are put into one vocabulary (see Field). What a reader does not
// understand stays in its place with its text (Field Other, Kind OtherVerdict,
// Name OtherAction), so that nothing is dropped silently.
package ruleset

// Tool says in whose words a rule set was written.
type Tool string

// The tools.
const (
	IPTables Tool = "iptables" // iptables-save or ip6tables-save
	NFT      Tool = "nft"      // nft -j list ruleset
	IPSet    Tool = "ipset"    // ipset save: sets only
)

// Family is the address family of a table, in nft's words. iptables-save gives
// IP, ip6tables-save gives IP6.
type Family string

// The families.
const (
	IP     Family = "ip"
	IP6    Family = "ip6"
	Inet   Family = "inet" // both
	ARP    Family = "arp"
	Bridge Family = "bridge"
	Netdev Family = "netdev"
)

// Ruleset is what one dump holds.
type Ruleset struct {
	Tool   Tool
	Source string // what was read: "iptables-save", a file's name
	Maker  string // the program and version that wrote it, if it says so: "iptables-save v1.8.9 (nf_tables)"
	Tables []*Table
	Sets   []*Set // ipsets; the sets of nft are in their tables
}

// Table is one table of rules.
type Table struct {
	Family Family
	Name   string
	Chains []*Chain
	Sets   []*Set   // nft sets and maps
	Others []Object // objects without a place in the model: flowtables, named counters, ct helpers …
	Line   int      // where it begins; 0 if unknown
	Handle int      // nft's number; 0 for iptables
	ipsets []*Set   // that its rules may name, of iptables; see Attach
}

// Object is a thing that the model has no place for.
type Object struct {
	Kind string // "flowtable", "ct helper" …
	Name string
	Text string // as written (nft: the JSON object)
	Line int
}

// Chain is a list of rules. A base chain has a Hook and is entered by packets,
// any other one by jumps only.
type Chain struct {
	Name     string
	Hook     string   // "prerouting", "input", "forward", "output", "postrouting", "ingress", "egress"; "" if it is no base chain
	Type     string   // "filter", "nat", "route"; iptables: as nft would call it
	Priority int      // smaller runs first; iptables: as the kernel has it (raw -300, filter 0 …)
	Devices  []string // of ingress and egress chains
	Policy   Kind     // Accept or Drop; "" if it is no base chain
	Counter  *Counter // of the policy; nil if it was not given (nft has none)
	Rules    []*Rule
	Line     int
	Handle   int
}

// Counter counts what passed.
type Counter struct {
	Packets, Bytes uint64
	// Before is the number of the rule's matches that come after it, so that
	// 0 means: counts what matched all. Other than 0 with nft only.
	Before int
}

// Rule is a conjunction of matches, what is done when all hold, and where the
// packet goes then.
type Rule struct {
	Matches []Match
	Actions []Action // in their order
	Verdict Verdict
	Counter *Counter // nil: the rule does not count, or it was not given
	Comment string
	Line    int    // in the dump, from 1
	Handle  int    // nft's number; 0 for iptables
	Text    string // as written: iptables, the line from -A on, without counters; nft, in nft's syntax
}

// Kind is what a verdict does with a packet.
type Kind string

// The verdicts. Those from DNAT on rewrite the packet or hand it over.
const (
	Continue     Kind = "" // none: the next rule is asked
	Accept       Kind = "accept"
	Drop         Kind = "drop"
	Reject       Kind = "reject"
	Return       Kind = "return"
	Jump         Kind = "jump"
	Goto         Kind = "goto"
	Map          Kind = "vmap" // by a verdict map
	Queue        Kind = "queue"
	DNAT         Kind = "dnat"
	SNAT         Kind = "snat"
	Masquerade   Kind = "masquerade"
	Redirect     Kind = "redirect"
	TProxy       Kind = "tproxy"
	SynProxy     Kind = "synproxy"
	OtherVerdict Kind = "other" // a target that is not understood: it may end the packet's way or not
)

// Verdict is where a packet goes that a rule matched.
type Verdict struct {
	Kind  Kind
	Chain string // Jump, Goto
	// With says how a Reject answers: "icmp port-unreachable",
	// "icmpv6 admin-prohibited", "icmpx …", "tcp reset"; "" for the default.
	// Of NAT it is where to: "10.0.0.1:80".
	With string
	Map  *VerdictMap // Map
	Text string      // as written; of OtherVerdict all that is known
}

// VerdictMap looks up a key and takes the verdict found; without one the next
// rule is asked.
type VerdictMap struct {
	Key      []Field
	Name     string    // of a named map (in the table's Sets), else ""
	Elements []Element // of a map without name
}

// The names of actions that are understood.
const (
	Log         = "log"
	NFLog       = "nflog"
	Notrack     = "notrack"
	SetMark     = "mark"     // Value and Mask: mark = mark &^ Mask ^ Value
	SetCTMark   = "ct mark"  // the connection's mark
	Helper      = "helper"   // attaches a connection tracking helper; Args["helper"]
	AddToSet    = "set add"  // Set names it; also with a time-out
	DelFromSet  = "set del"  // Set names it
	Trace       = "trace"    // marks the packet for tracing
	ClampMSS    = "tcpmss"   // sets or clamps the maximum segment size
	NamedCount  = "counter"  // counts in a counter of the table; Args["name"]
	OtherAction = "other"    // not understood: it may rewrite the packet
	Mangle      = "mangle"   // rewrites a header field
	Flow        = "flow add" // hands the connection to a flowtable
)

// Action is what a rule does besides its verdict.
type Action struct {
	Name        string
	Set         string
	Value, Mask uint64
	Args        map[string]string // options as written, by their names without dashes
	Text        string            // as written
	// Before is the number of the rule's matches that come after it: 0 means
	// done only when all matched. Other than 0 with nft only.
	Before int
}
