package change

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"headroom/engine/netns"
	"headroom/fail"
	"headroom/host"
)

// rehearsed limits what is read back from a rehearsal, in bytes.
const rehearsed = 64 << 20

// rehearse loads content into an empty network namespace that nobody else
// sees, by the same program and kernel, and returns how it lists there. What
// cannot be loaded, or makes any other table, is an error.
func (s Rules) rehearse(ctx context.Context, r host.Reader, d dialect, content string) (State, error) {
	script, err := d.script(s.Tables, content)
	if err != nil {
		return State{}, fail.With(err, fail.Usage)
	}
	st, all, err := s.inNamespace(ctx, r, d, script)
	if err != nil {
		return State{}, err
	}
	for _, t := range all {
		if !slices.Contains(s.Tables, t) {
			return State{}, fail.With(fmt.Errorf("read rules: they make table %s, which is none of the named ones (%s)", t, strings.Join(s.Tables, ", ")), fail.Usage)
		}
	}
	return st, nil
}

// rehearseFile is rehearse for a whole file that is loaded at boot, which may
// hold other tables, too.
func (s Rules) rehearseFile(ctx context.Context, r host.Reader, content string) (State, error) {
	d, err := s.dialect()
	if err != nil {
		return State{}, err
	}
	st, _, err := s.inNamespace(ctx, r, d, content)
	return st, err
}

// inNamespace loads a script in a namespace and lists what came of it.
func (s Rules) inNamespace(ctx context.Context, r host.Reader, d dialect, script string) (State, []string, error) {
	ns, err := netns.New()
	if err != nil {
		return State{}, nil, err
	}
	defer ns.Close()
	devices, err := netns.Named(script)
	if err == nil {
		err = ns.StandIn(devices)
	}
	if err == nil {
		err = lendSets(ctx, r, ns, script)
	}
	if err != nil {
		return State{}, nil, err
	}
	if _, err := ns.Run(ctx, host.Cmd{Argv: d.loader(), Stdin: strings.NewReader(script)}, 1<<20); err != nil {
		return State{}, nil, fmt.Errorf("try the rules in a namespace: %w", err)
	}
	var lists []string
	for _, argv := range d.listers() {
		b, err := ns.Run(ctx, host.Cmd{Argv: argv}, rehearsed+1)
		if err == nil && len(b) > rehearsed {
			err = errors.New("the rules are larger than 64 MiB")
		}
		if err != nil {
			return State{}, nil, fmt.Errorf("list the tried rules: %w", err)
		}
		lists = append(lists, string(b))
	}
	return d.listed(lists[0], lists[len(lists)-1], s.Tables)
}

var setWord = regexp.MustCompile(`--(?:match-set|add-set|del-set) (\S+)`)

// lendSets copies the address sets that iptables rules speak of.
func lendSets(ctx context.Context, r host.Reader, ns *netns.Namespace, content string) error {
	done := map[string]bool{}
	for _, m := range setWord.FindAllStringSubmatch(content, -1) {
		name := strings.Trim(m[1], `"`)
		if done[name] {
			continue
		}
		done[name] = true
		b, err := r.Look(ctx, "ipset", "save", name)
		if err != nil {
			return fmt.Errorf("read address set %s: %w", name, err)
		}
		if _, err := ns.Run(ctx, host.Cmd{Argv: []string{"ipset", "-exist", "restore"}, Stdin: strings.NewReader(string(b))}, 1<<20); err != nil {
			return fmt.Errorf("copy address set %s: %w", name, err)
		}
	}
	return nil
}
