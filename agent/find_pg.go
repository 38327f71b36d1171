package agent

import (
	"cmp"
	"fmt"
	"net/netip"
	"os"
	"os/user"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"headroom/metric"
)

// place is where a server can be reached.
type place struct {
	dir  string // of its socket; "" over TCP
	host string // over TCP
	port int
}

func (p place) socket() string { return fmt.Sprintf("%s/.s.PGSQL.%d", p.dir, p.port) }

func (p place) found() string {
	if p.dir != "" {
		return "socket " + p.socket()
	}
	return fmt.Sprintf("port %s:%d", p.host, p.port)
}

func (p place) name() string { return nameOf(cmp.Or(p.dir, p.host), p.port) }

// dsn writes how to connect to a database there, as a user if one is given.
func (p place) dsn(db, user string) string {
	out := fmt.Sprintf("host=%s port=%d dbname=%s", quote(cmp.Or(p.dir, p.host)), p.port, db)
	if user != "" {
		out += " user=" + quote(user)
	}
	return out
}

func quote(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(s) + "'"
}

// account is who we are for a server that asks the operating system.
func account() string {
	if u := os.Getenv("PGUSER"); u != "" {
		return u
	}
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return strconv.Itoa(os.Getuid())
}

// postmaster is a running server as its process tells, as far as we may look.
type postmaster struct {
	process
	at    place
	known bool // whether at holds anything
}

const nameIt = "name it: --db 'host=ADDRESS port=PORT user=…'"

// throwaway is the data folder of a private server that Headroom starts for a
// trial or a lab and removes after it.
var throwaway = regexp.MustCompile(`/pg-[a-z0-9]{8}/data$`)

// postmasters are the processes of PostgreSQL that no other one started;
// passed are the folders of sockets of those that nobody wants to see.
func (f *Finder) postmasters(ps []process) (out []postmaster, passed []string) {
	byPID := map[int]bool{}
	for _, p := range ps {
		if p.name == "postgres" || p.name == "postmaster" {
			byPID[p.pid] = true
		}
	}
	for _, p := range ps {
		if !byPID[p.pid] || byPID[p.parent] {
			continue
		}
		at, known := f.whereIs(p)
		if f.skips(at.dir) || !f.All && throwaway.MatchString(p.option("-D", "")) {
			passed = append(passed, at.dir)
		} else {
			out = append(out, postmaster{p, at, known})
		}
	}
	return out, passed
}

// skips says whether a folder of sockets is in one to pass over.
func (f *Finder) skips(dir string) bool {
	return slices.ContainsFunc(f.Skip, func(s string) bool { return dir == s || strings.HasPrefix(dir, s+"/") })
}

// whereIs reads postmaster.pid, which only the server's account and root may,
// else the command line.
func (f *Finder) whereIs(p process) (place, bool) {
	if data, err := f.Reader.Resolve(p.dir() + "/cwd"); err == nil {
		if b, err := f.Reader.ReadFile(data + "/postmaster.pid"); err == nil {
			lines := strings.Split(string(b), "\n") // PID, data folder, start, port, socket folder, address …
			if len(lines) > 5 {
				port, err := strconv.Atoi(strings.TrimSpace(lines[3]))
				return place{dir: strings.TrimSpace(lines[4]), host: strings.TrimSpace(lines[5]), port: port}, err == nil
			}
		}
	}
	at := place{dir: p.option("-k", "")}
	port := p.option("-p", "--port")
	for _, a := range p.args { // -c name=value
		if v, ok := strings.CutPrefix(a, "port="); ok {
			port = v
		}
		if v, ok := strings.CutPrefix(a, "unix_socket_directories="); ok {
			at.dir, _, _ = strings.Cut(v, ",")
		}
	}
	var err error
	at.port, err = strconv.Atoi(port)
	return at, err == nil
}

// servers lists the servers of PostgreSQL that are not poolers.
func (f *Finder) servers(ps []process, unix, tcp []listener, pools []*candidate) []*candidate {
	masters, passed := f.postmasters(ps)
	pooled := map[int]bool{}
	for _, c := range pools {
		pooled[c.port] = true
	}
	var places []place
	for _, l := range unix {
		if dir, port, ok := pgSocket(l.path); ok && !pooled[port] && !f.skips(dir) && !slices.Contains(passed, dir) {
			places = append(places, place{dir: dir, port: port})
		}
	}
	places = once(places, masters)
	var out []*candidate
	for _, m := range masters {
		if m.known && !slices.ContainsFunc(places, func(p place) bool { return p.port == m.at.port }) {
			if host := tcpHost(m.at.port, tcp); host != "" {
				places = append(places, place{host: host, port: m.at.port})
			} else {
				out = append(out, hidden(metric.Postgres, "PostgreSQL", m.pid, nameIt))
			}
		}
	}
	if len(masters) > 0 && len(places)+len(out) == 0 {
		places = byAccount(masters, tcp)
		if len(places) == 0 {
			out = append(out, hidden(metric.Postgres, "PostgreSQL", masters[0].pid, nameIt))
		}
	}
	for _, p := range places {
		out = append(out, server(p))
	}
	return out
}

// once leaves one socket for each server: one that has sockets in several
// folders is known by the first of them.
func once(places []place, masters []postmaster) []place {
	rank := func(dir string) int {
		i := slices.Index([]string{"/var/run/postgresql", "/run/postgresql", "/tmp"}, dir)
		if i < 0 {
			return 9
		}
		return i
	}
	slices.SortFunc(places, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.port, b.port), cmp.Compare(rank(a.dir), rank(b.dir)), cmp.Compare(a.dir, b.dir))
	})
	var out []place
	for i, p := range places {
		first := i == 0 || places[i-1].port != p.port
		own, others := false, false
		for _, m := range masters {
			if m.known && m.at.port == p.port && m.at.dir != "" {
				own = own || m.at.dir == p.dir
				others = others || m.at.dir != p.dir
			}
		}
		if own || !others && first {
			out = append(out, p)
		}
	}
	return out
}

// tcpHost is the address on which this machine reaches a port that is listened
// on here, loopback if that is among them; "" if none is.
func tcpHost(port int, tcp []listener) (host string) {
	for _, l := range tcp {
		if int(l.addr.Port()) != port {
			continue
		}
		switch a := l.addr.Addr(); {
		case a.IsUnspecified():
			return "127.0.0.1"
		case a.IsLoopback():
			return a.String()
		case host == "":
			host = a.String()
		}
	}
	return host
}

// byAccount are the ports that the server's account listens on, where nothing
// else tells.
func byAccount(masters []postmaster, tcp []listener) []place {
	var out []place
	for _, l := range tcp {
		mine := slices.ContainsFunc(masters, func(m postmaster) bool { return m.uid == l.uid && m.uid != 0 })
		p := place{host: tcpHost(int(l.addr.Port()), tcp), port: int(l.addr.Port())}
		if mine && !slices.ContainsFunc(out, func(q place) bool { return q.port == p.port }) {
			out = append(out, p)
		}
	}
	return out
}

// hidden is a server that runs here and cannot be reached from here.
func hidden(kind metric.Target, what string, pid int, way string) *candidate {
	return &candidate{Target: Target{
		Kind: kind, Name: fmt.Sprintf("process %d", pid), Found: fmt.Sprintf("process %d", pid), Hint: way,
		Missing: fmt.Sprintf("%s runs as process %d, but no socket or port of it is visible from here (a container?)", what, pid),
	}}
}

// server is a candidate for a place. We try who we are, and the superuser that
// most servers have, in case that is let in.
func server(p place) *candidate {
	me := account()
	c := &candidate{
		Target: Target{Kind: metric.Postgres, Name: p.name(), Found: p.found()},
		dir:    p.dir, port: p.port, dsns: []string{p.dsn("postgres", "")},
		long: longName(cmp.Or(p.dir, p.host), p.port),
	}
	if me != "postgres" {
		c.dsns = append(c.dsns, p.dsn("postgres", "postgres"))
	}
	role := pgx.Identifier{me}.Sanitize()
	at := fmt.Sprintf("-p %d", p.port)
	if p.dir != "" {
		at = fmt.Sprintf("-h %s -p %d", p.dir, p.port)
	}
	c.way = fmt.Sprintf(`let it in, as the server's own account: psql %s -d postgres -c 'CREATE ROLE %s LOGIN' -c 'GRANT pg_monitor TO %s'; or name another login with --db`, at, role, role)
	return c
}

// loopback says whether an address is one of this machine's own.
func loopback(s string) bool {
	a, err := netip.ParseAddr(s)
	return s == "localhost" || err == nil && a.IsLoopback()
}
