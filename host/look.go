package host

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"headroom/fail"
)

// Looks and LooksWhole are the whole list of programs that looking may run;
// here the program and the first arguments it must be given. Each must be free
// of side effects.
var Looks = [][]string{
	{"systemctl", "show"},
	{"systemctl", "is-active"},
	{"systemctl", "is-enabled"},
	// The state of RAID controllers; without a log in the working folder.
	{"storcli64", "/call", "show", "J", "nolog"},
	{"/opt/MegaRAID/storcli/storcli64", "/call", "show", "J", "nolog"},
	{"perccli64", "/call", "show", "J", "nolog"},
	{"/opt/MegaRAID/perccli/perccli64", "/call", "show", "J", "nolog"},
	{"megacli", "-AdpAllInfo", "-aALL", "-NoLog"},
	{"/opt/MegaRAID/MegaCli/MegaCli64", "-AdpAllInfo", "-aALL", "-NoLog"},
	{"ssacli", "ctrl", "all", "show", "config"},
	{"hpssacli", "ctrl", "all", "show", "config"},
	// Packet-filter tables, before and after a change of them. Without -t the
	// save programs list what is there and load no table.
	{"nft", "list", "tables"},
	{"nft", "list", "table"},
	{"nft", "--stateless", "list", "table"},
	{"iptables-save", "--counters"},
	{"ip6tables-save", "--counters"},
	{"iptables-legacy-save", "--counters"},
	{"ip6tables-legacy-save", "--counters"},
	{"iptables-nft-save", "--counters"},
	{"ip6tables-nft-save", "--counters"},
	{"ipset", "save"},
}

// LooksWhole are further ones that must be given exactly these arguments: what
// is added to the line of nft would be more commands.
var LooksWhole = [][]string{
	{"nft", "-j", "list", "ruleset"},
	// Addresses, routes, and the sizes of packets that paths were found to take.
	{"ip", "-j", "addr"},
	{"ip", "-j", "route", "show", "table", "all"},
	{"ip", "-j", "route", "show", "cache"}, {"ip", "-j", "-6", "route", "show", "cache"},
	// The kernel's log.
	{"dmesg"},
}

// patience is how long a program may take. 100,000 rules of nftables take nft
// 1.0.6 some 6 s of CPU time, as text as well as in JSON, and were seen to take
// 38 s on a busy machine.
func patience(argv []string) time.Duration {
	if argv[0] == "nft" || argv[0] == "ipset" || strings.Contains(argv[0], "tables-") {
		return 3 * time.Minute
	}
	return 10 * time.Second
}

// allowed says whether argv may be run by Look.
func allowed(argv []string) error {
	for _, l := range LooksWhole {
		if slices.Equal(argv, l) {
			return nil
		}
	}
	for _, l := range Looks {
		if len(argv) >= len(l) && strings.Join(argv[:len(l)], "\x00") == strings.Join(l, "\x00") {
			return nil
		}
	}
	return fail.Hint(fmt.Errorf("look with %q: not on the list of read-only commands", argv),
		"this is a fault in Headroom: a check tried to run a program that could change the machine")
}
