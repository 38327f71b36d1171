// Package firewall reads what decides over a machine's packets: the rules of
// iptables, ip6tables and nftables with their counters, ipsets, the connection
// tracking table, and the settings around them. It only ever reads, through
// programs that list; see host.Looks.
package firewall

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"headroom/engine/ruleset"
	"headroom/fact"
	"headroom/fail"
	"headroom/host"
)

// Dump is what one program listed, or why it could not. In a saved file its
// text stands as "text".
type Dump struct {
	Source string         `json:"source" src:"the program" doc:"the program that was asked, with its arguments"`
	Family ruleset.Family `json:"family,omitempty" src:"the program" doc:"ip or ip6; empty for nft and ipset"`
	Size   int64          `json:"size" unit:"bytes" src:"the program" doc:"how much it wrote"`
	Text   string         `json:"-"`
	// Unknown is why nothing is known of what it would list; empty if it is
	// known, with or without Text.
	Unknown string `json:"unknown_because,omitempty" src:"the program" doc:"why it could not be asked"`
}

// fileDump is a Dump in a saved file; in tables the text would be in the way.
type fileDump struct {
	Source  string         `json:"source"`
	Family  ruleset.Family `json:"family,omitempty"`
	Text    string         `json:"text,omitempty"`
	Unknown string         `json:"unknown_because,omitempty"`
}

// MarshalJSON implements json.Marshaler.
func (d Dump) MarshalJSON() ([]byte, error) {
	return json.Marshal(fileDump{d.Source, d.Family, d.Text, d.Unknown})
}

// UnmarshalJSON implements json.Unmarshaler.
func (d *Dump) UnmarshalJSON(b []byte) error {
	var f fileDump
	err := json.Unmarshal(b, &f)
	*d = Dump{Source: f.Source, Family: f.Family, Size: int64(len(f.Text)), Text: f.Text, Unknown: f.Unknown}
	return err
}

// Rules are all the rules of the machine. Of the dumps that Read makes, those of
// iptables hold only tables of which iptables tells all; nft's holds every table
// that is in nftables, those too.
type Rules struct {
	Dumps []Dump `json:"dumps" src:"iptables-save, ip6tables-save, nft, ipset" doc:"the rules as their programs list them"`

	tables []*ruleset.Table
	unread []string
}

// Tables are the tables of all dumps in one model. A table that iptables keeps
// in nftables is there once, as iptables lists it if that is all of it, else as
// nft does.
func (r Rules) Tables() []*ruleset.Table { return r.tables }

// Unread says which rules could not be read, and why: what is said of the
// others then holds for them alone.
func (r Rules) Unread() []string { return r.unread }

// NewRules puts dumps together. A dump that cannot be parsed counts as unread.
func NewRules(dumps []Dump) Rules {
	r := Rules{Dumps: dumps}
	var nft []*ruleset.Table
	var rs []*ruleset.Ruleset
	var sets []*ruleset.Set
	for _, d := range dumps {
		if d.Unknown != "" {
			r.unread = append(r.unread, d.Source+": "+d.Unknown)
			continue
		}
		if d.Text == "" {
			continue
		}
		one, err := parse(d)
		if err != nil {
			r.unread = append(r.unread, err.Error())
			continue
		}
		switch one.Tool {
		case ruleset.NFT:
			nft = append(nft, one.Tables...)
		case ruleset.IPSet:
			sets = one.Sets
		default:
			rs = append(rs, one)
		}
	}
	for _, one := range rs {
		one.Attach(sets)
	}
	r.tables = merge(rs, nft)
	return r
}

func parse(d Dump) (*ruleset.Ruleset, error) {
	switch {
	case strings.HasPrefix(d.Source, "nft"):
		return ruleset.ParseNFT(d.Source, []byte(d.Text))
	case strings.HasPrefix(d.Source, "ipset"):
		return ruleset.ParseIPSet(d.Source, []byte(d.Text))
	}
	return ruleset.ParseIPTables(d.Source, d.Family, []byte(d.Text))
}

// UnmarshalJSON implements json.Unmarshaler.
func (r *Rules) UnmarshalJSON(b []byte) error {
	var plain struct {
		Dumps []Dump `json:"dumps"`
	}
	if err := json.Unmarshal(b, &plain); err != nil {
		return err
	}
	*r = NewRules(plain.Dumps)
	return nil
}

// Live is the fact "firewall.rules".
var Live = &fact.Source[Rules]{
	Name: "firewall.rules", Doc: "the rules of the packet filter, with their counters",
	Read: func(ctx context.Context, in *fact.In) (Rules, error) { return Read(ctx, in) },
}

// Read lists all the machine's rules. It fails only if no program is there to
// list any, or none listed any and some were not allowed to: what single ones
// could not tell is in their dumps.
func Read(ctx context.Context, r host.Reader) (Rules, error) {
	dumps := listAll(ctx, r)
	oldPrograms(dumps)
	absent, denied, told := 0, 0, 0
	for i := range dumps {
		switch dumps[i].Unknown {
		case missing:
			absent++
			dumps[i].without(r)
		case forRoot:
			denied++
		case "":
			if dumps[i].Text != "" {
				told++
			}
		}
	}
	if absent == len(dumps) {
		return Rules{}, fail.Hint(fmt.Errorf("list the rules of the packet filter: neither nft nor iptables is installed: %w", fail.ErrAbsent), "apt-get install nftables")
	}
	if denied > 0 && told == 0 {
		return Rules{}, fail.Hint(fmt.Errorf("list the rules of the packet filter: %w: only root may", fail.ErrDenied), "run it as root")
	}
	return NewRules(slices.DeleteFunc(faithful(dumps), func(d Dump) bool { return d.Text == "" && d.Unknown == "" })), nil
}

// listAll asks every program, apart from those whose question would make the
// kernel load a module that it does without: then there is nothing to list.
func listAll(ctx context.Context, r host.Reader) (dumps []Dump) {
	for _, l := range []struct {
		family ruleset.Family
		nft    bool
		names  []string // the first that is there is asked
	}{
		{ruleset.IP, false, []string{"iptables-legacy-save"}}, {ruleset.IP6, false, []string{"ip6tables-legacy-save"}},
		{ruleset.IP, true, []string{"iptables-nft-save", "iptables-save"}}, {ruleset.IP6, true, []string{"ip6tables-nft-save", "ip6tables-save"}},
	} {
		if l.nft && idle(r, "nf_tables") {
			l.names = l.names[1:] // a plain name may be that of the old program
			if n, err := r.ReadFile(tableNames[l.family]); err != nil || strings.TrimSpace(string(n)) == "" {
				l.names = nil
			}
		}
		dumps = append(dumps, ask(ctx, r, l.family, l.names))
	}
	for _, l := range []struct {
		module string
		argv   []string
	}{{"nf_tables", []string{"nft", "-j", "list", "ruleset"}}, {"ip_set", []string{"ipset", "save"}}} {
		if idle(r, l.module) {
			dumps = append(dumps, Dump{Source: strings.Join(l.argv, " ")})
			continue
		}
		dumps = append(dumps, look(ctx, r, "", l.argv...))
	}
	return dumps
}

// tableNames list the tables that iptables keeps by itself.
var tableNames = map[ruleset.Family]string{ruleset.IP: "/proc/net/ip_tables_names", ruleset.IP6: "/proc/net/ip6_tables_names"}

// oldPrograms drops the question for iptables-legacy-save where iptables-save is
// of a time that knew no other.
func oldPrograms(dumps []Dump) {
	for i := range 2 {
		d := dumps[i+2]
		if dumps[i].Unknown == missing && strings.HasPrefix(d.Source, "ip") && !strings.Contains(d.Source, "-nft-") && d.Text != "" {
			if rs, err := parse(d); err == nil && !strings.Contains(rs.Maker, "nf_tables") {
				dumps[i].Unknown = ""
			}
		}
	}
}

const (
	// missing stands for a program that is not there, until it is known whether
	// that matters.
	missing = "not installed"
	forRoot = "only root may list them: run it as root"
)

func ask(ctx context.Context, r host.Reader, family ruleset.Family, names []string) (d Dump) {
	for _, n := range names {
		if d = look(ctx, r, family, n, "--counters"); d.Unknown != missing {
			return d
		}
	}
	return d
}

func look(ctx context.Context, r host.Reader, family ruleset.Family, argv ...string) Dump {
	d := Dump{Source: strings.Join(argv, " "), Family: family}
	out, err := r.Look(ctx, argv...)
	switch {
	case errors.Is(err, fail.ErrAbsent):
		d.Unknown = missing
	case err != nil && refused(err):
		d.Unknown = forRoot
	case err != nil:
		d.Unknown = err.Error()
	default:
		d.Text = string(out)
	}
	if !strings.ContainsAny(d.Text, "*{") && family != "" { // comments only
		d.Text = ""
	}
	d.Size = int64(len(d.Text))
	return d
}

// refused says whether a program that lists was not allowed to.
func refused(err error) bool {
	s := err.Error()
	return strings.Contains(s, "ermission denied") || strings.Contains(s, "not permitted") || strings.Contains(s, "must be root")
}

// without asks the kernel whether there can be rules that the missing program
// would have listed; none is known to be none.
func (d *Dump) without(r host.Reader) {
	switch {
	case strings.HasPrefix(d.Source, "ipset"), strings.Contains(d.Source, "-nft-save"), d.Source == "iptables-save --counters", d.Source == "ip6tables-save --counters":
		d.Unknown = "" // nft lists its tables; rules that name a set say so themselves
		return
	case strings.HasPrefix(d.Source, "nft"):
		d.Unknown = "nft is not installed, so rules of nftables would not be seen: apt-get install nftables"
		return
	}
	b, err := r.ReadFile(tableNames[d.Family])
	switch {
	case err == nil && strings.TrimSpace(string(b)) == "", errors.Is(err, fail.ErrAbsent):
		d.Unknown = ""
	case err != nil:
		d.Unknown = fmt.Sprintf("the program is not installed, and %v", err)
	default:
		d.Unknown = "the kernel has tables of it (" + strings.Join(strings.Fields(string(b)), ", ") + ") and the program is not installed: apt-get install iptables"
	}
}

// idle says whether the kernel does without a part of it for certain: its module
// is not loaded, and it is not built in.
func idle(r host.Reader, module string) bool {
	if _, err := r.Stat("/sys/module/" + module); !errors.Is(err, fail.ErrAbsent) {
		return false
	}
	release, err := r.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return false
	}
	builtin, err := r.ReadFile("/lib/modules/" + strings.TrimSpace(string(release)) + "/modules.builtin")
	return err == nil && !strings.Contains(string(builtin), "/"+module+".ko")
}
