package change

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"headroom/fail"
	"headroom/host"
)

// Rules are whole tables of the packet filter. All named tables are replaced
// at once (nft: in one transaction; iptables: each table in one), and no other
// table is touched. Counters and what packets put into sets move by themselves
// and are not compared; undoing brings them back as they were planned from.
type Rules struct {
	// Tool is nft, or the family of programs that the rules belong to:
	// iptables, ip6tables, and each with -legacy or -nft.
	Tool string `json:"tool"`
	// Tables are what is replaced: for nft "FAMILY NAME", else the name.
	Tables []string `json:"tables"`
	// Content is the tables as `nft list table` or iptables-save writes them.
	// A named table that is not in it shall not be there; for iptables: shall
	// be empty and accept.
	Content string `json:"content,omitempty"`
	// Boot says that, once the change is confirmed, the rules are saved to be
	// loaded at boot. It adds File steps to the plan.
	Boot bool `json:"boot,omitempty"`
}

// dialect is one way to list and load tables.
type dialect interface {
	// look lists the tables that are there, in full and, where the tool can
	// tell, without what moves by itself.
	look(ctx context.Context, r host.Reader, tables []string) (full, still string, err error)
	// listed makes a state of listings and names all tables in them.
	listed(full, still string, tables []string) (State, []string, error)
	// script replaces the tables by content.
	script(tables []string, content string) (string, error)
	loader() []string
	// tester is the loader's own dry run.
	tester() []string
	// listers print the two listings of all tables; one where both are the same.
	listers() [][]string
	valid(table string) bool
}

// Tools lists what Rules.Tool can be.
func Tools() []string {
	return []string{"nft", "iptables", "ip6tables", "iptables-legacy", "ip6tables-legacy", "iptables-nft", "ip6tables-nft"}
}

func (s Rules) dialect() (dialect, error) {
	switch {
	case !slices.Contains(Tools(), s.Tool):
		return nil, fail.With(fmt.Errorf("plan rules: no tool %q (there are: %s)", s.Tool, strings.Join(Tools(), ", ")), fail.Usage)
	case s.Tool == "nft":
		return nftables{}, nil
	}
	return iptables{s.Tool}, nil
}

// Kind implements Step.
func (Rules) Kind() string { return "rules" }

// Object implements Step.
func (s Rules) Object() string {
	word := "table"
	if len(s.Tables) > 1 {
		word = "tables"
	}
	return s.Tool + " " + word + " " + strings.Join(s.Tables, ", ")
}

func (s Rules) objects() []string {
	var out []string
	for _, t := range s.Tables {
		out = append(out, s.Tool+" table "+t)
	}
	return out
}

// Effects implements Step.
func (Rules) Effects() []string {
	return []string{"takes effect on every packet at once; taken back by itself unless it is confirmed"}
}

func (s Rules) String() string {
	if strings.TrimSpace(s.Content) == "" {
		if s.Tool == "nft" {
			return "remove " + s.Object()
		}
		return "empty " + s.Object() + ", accepting all"
	}
	return "load " + s.Object() + " in one go"
}

// Read implements Step.
func (s Rules) Read(ctx context.Context, r host.Reader) (State, error) {
	d, err := s.dialect()
	if err != nil {
		return State{}, err
	}
	full, still, err := d.look(ctx, r, s.Tables)
	if err != nil {
		return State{}, fmt.Errorf("list %s: %w", s.Object(), hintRoot(err))
	}
	st, _, err := d.listed(full, still, s.Tables)
	if err != nil {
		return State{}, fmt.Errorf("list %s: %w", s.Object(), err)
	}
	return st, nil
}

// hintRoot names the way out of the errors that a missing right leads to.
func hintRoot(err error) error {
	if err == nil || fail.HintOf(err) != "" {
		return err
	}
	msg := err.Error()
	if errors.Is(err, fail.ErrDenied) || strings.Contains(msg, "not permitted") || strings.Contains(msg, "Permission denied") || strings.Contains(msg, "you must be root") {
		return fail.Hint(err, "run as root: rules are read and tried with the right CAP_NET_ADMIN")
	}
	return err
}

// Want implements Step: both the wanted rules and the present ones, which are
// the way back, are tried in an empty network namespace first.
func (s Rules) Want(ctx context.Context, r host.Reader, before State) (State, error) {
	d, err := s.dialect()
	if err != nil {
		return State{}, err
	}
	if len(s.Tables) == 0 {
		return State{}, fail.With(errors.New("plan rules: no table named"), fail.Usage)
	}
	for _, t := range s.Tables {
		if !d.valid(t) {
			return State{}, fail.With(fmt.Errorf("plan rules: %s has no table %q", s.Tool, t), fail.Usage)
		}
	}
	want, err := s.rehearse(ctx, r, d, s.Content)
	if err != nil {
		return State{}, fmt.Errorf("plan %s: %w", s.Object(), hintRoot(err))
	}
	back, err := s.rehearse(ctx, r, d, before.Loads)
	if err == nil && !back.kept(before) {
		err = errors.New("loaded again, they list otherwise")
	}
	if err != nil {
		return State{}, fmt.Errorf("plan %s: the present rules could not be put back: %w", s.Object(), hintRoot(err))
	}
	return want, nil
}

// Undo implements Step.
func (s Rules) Undo(before State) Step {
	return Rules{Tool: s.Tool, Tables: s.Tables, Content: before.Loads}
}

// Apply implements Step.
func (s Rules) Apply(ctx context.Context, w host.Writer) error {
	d, err := s.dialect()
	if err != nil {
		return err
	}
	script, err := d.script(s.Tables, s.Content)
	if err != nil {
		return err
	}
	if _, err := w.Feed(ctx, []byte(script), d.tester()...); err != nil {
		return fmt.Errorf("try %s: %w", s.Object(), hintRoot(err))
	}
	if _, err := w.Feed(ctx, []byte(script), d.loader()...); err != nil {
		return fmt.Errorf("load %s: %w", s.Object(), hintRoot(err))
	}
	return nil
}
