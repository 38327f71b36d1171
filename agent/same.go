package agent

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// oneServer are the ways that lead to one server.
type oneServer struct {
	ways []*candidate
	name string
}

// together puts candidates that lead to one server together: those that say so
// themselves, and of those that let nobody in, sockets of the same process and
// logins at the same address.
func together(found []*candidate) []*oneServer {
	order := slices.Clone(found)
	slices.SortStableFunc(order, func(a, b *candidate) int { // who says who it is comes first
		return cmp.Compare(b2i(a.login.id.System == ""), b2i(b.login.id.System == ""))
	})
	var out []*oneServer
	for _, c := range order {
		i := slices.IndexFunc(out, func(s *oneServer) bool {
			return slices.ContainsFunc(s.ways, func(w *candidate) bool { return w.sameAs(c) })
		})
		if i < 0 {
			out = append(out, &oneServer{ways: []*candidate{c}})
			continue
		}
		out[i].ways = append(out[i].ways, c)
	}
	giveNames(out)
	return out
}

func (c *candidate) sameAs(d *candidate) bool {
	a, b := c.login.id, d.login.id
	switch {
	case c.Kind != d.Kind:
		return false
	case a.System != "" && b.System != "":
		return a.is(b)
	case a.Master != 0 && b.Master != 0:
		return a.Master == b.Master && a.Port == b.Port
	case a.System != "" && b.Master != 0, b.System != "" && a.Master != 0:
		// One is a process of this machine that lets nobody in, the other is
		// none of its processes.
		return false
	}
	return c.key() == d.key()
}

// giveNames gives each server a name of its own: the port alone where a way
// has that, and the longer form for the second one of that name. Servers with
// a socket here choose first.
func giveNames(all []*oneServer) {
	local := func(s *oneServer) bool {
		return slices.ContainsFunc(s.ways, func(c *candidate) bool { return !c.named && c.dir != "" })
	}
	order := slices.Clone(all)
	slices.SortStableFunc(order, func(a, b *oneServer) int { return cmp.Compare(b2i(local(b)), b2i(local(a))) })
	taken := map[string]bool{}
	for _, s := range order {
		for _, name := range s.names() {
			s.name = name
			if key := (Target{Kind: s.ways[0].Kind, Name: name}).key(); !taken[key] {
				taken[key] = true
				break
			}
		}
	}
}

// names are those that a server may have, the best first.
func (s *oneServer) names() []string {
	ways := slices.Clone(s.ways)
	slices.SortFunc(ways, func(a, b *candidate) int {
		return cmp.Or(cmp.Compare(b2i(strings.Contains(a.Name, ":")), b2i(strings.Contains(b.Name, ":"))),
			cmp.Compare(b2i(a.named), b2i(b.named)), cmp.Compare(a.Name, b.Name))
	})
	var short, long []string
	for _, c := range ways {
		short = append(short, c.Name)
		if c.long != "" {
			long = append(long, c.long)
		}
	}
	return append(short, long...)
}

// target is what is watched of a server: once, by the way that sees most.
func (s *oneServer) target() Target {
	best := slices.MaxFunc(s.ways, func(a, b *candidate) int {
		x, y := a.login, b.login
		return cmp.Or(cmp.Compare(b2i(x.dsn != ""), b2i(y.dsn != "")), cmp.Compare(b2i(y.away), b2i(x.away)), cmp.Compare(x.id.Rights, y.id.Rights),
			cmp.Compare(b2i(y.id.Pooled), b2i(x.id.Pooled)), cmp.Compare(b2i(a.named), b2i(b.named)))
	})
	t := best.Target
	t.Name = s.name
	for _, c := range s.ways {
		if len(s.ways) > 1 {
			t.Ways = append(t.Ways, c.told())
		}
	}
	for _, name := range s.names() {
		if name != s.name {
			t.also = append(t.also, Target{Kind: t.Kind, Name: name}.key())
		}
	}
	return t
}

// told is a way in words, without a password.
func (c *candidate) told() string {
	text := c.Found
	if c.named {
		text = "--db " + c.long
	}
	switch l := c.login; {
	case l.dsn == "" && l.missing != "":
		text += " (login refused)"
	case l.away:
		text += " (no answer)"
	case l.id.Rights == 1:
		text += " (not in pg_monitor)"
	case l.id.Pooled:
		text += " (through a pooler)"
	}
	return text
}

// longName is a name with its address, whatever that is.
func longName(host string, port int) string { return fmt.Sprintf("%s:%d", host, port) }
