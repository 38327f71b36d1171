package agent

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"headroom/host"
	"headroom/metric"
)

// Finder finds what runs on this machine. It remembers which servers it could
// log in to, and leaves those that refused alone for longer and longer. It is
// safe for concurrent use.
type Finder struct {
	// Reader is the machine.
	Reader host.Reader
	// DSNs names further servers of PostgreSQL, here or elsewhere.
	DSNs []string
	// Skip lists folders: servers with their sockets in or below them are
	// passed over.
	Skip []string
	// All has the private servers of trials and labs found as well, which come
	// and go.
	All bool
	// Knock logs in and asks who answers; nil: for real.
	Knock func(ctx context.Context, kind metric.Target, dsn string) (Identity, error)

	mu    sync.Mutex
	tried map[string]*login // by candidate.id
}

// Find looks once. Targets come by kind and name.
func (f *Finder) Find(ctx context.Context) []Target {
	ps, err := processes(f.Reader, "postgres", "postmaster", "pgbouncer", "nginx")
	if err != nil {
		ps = nil // sockets and ports still tell
	}
	unix, tcp := unixListeners(f.Reader), tcpListeners(f.Reader)
	pools := f.poolers(ps, unix, tcp)
	found := append(f.named(), f.servers(ps, unix, tcp, pools)...)
	found = append(found, pools...)
	f.askAll(ctx, found[:min(len(found), maxCandidates)])
	f.forget(found)
	var out []Target
	for _, g := range together(found) {
		out = append(out, g.target())
	}
	out = append(out, nginxes(f.Reader, ps)...)
	slices.SortStableFunc(out, func(a, b Target) int { return cmp.Compare(a.key(), b.key()) })
	out = slices.CompactFunc(out, func(a, b Target) bool { return a.key() == b.key() })
	return few(out)
}

// forget drops what is known of servers that are not there any more.
func (f *Finder) forget(found []*candidate) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for key := range f.tried {
		if !slices.ContainsFunc(found, func(c *candidate) bool { return c.id() == key }) {
			delete(f.tried, key)
		}
	}
}

// few bounds the targets; the last one that is kept says what was left out.
func few(ts []Target) []Target {
	if len(ts) <= maxTargets {
		return ts
	}
	last := &ts[maxTargets-1]
	last.Missing = fmt.Sprintf("%d more servers were found here; at most %d are looked at", len(ts)-maxTargets, maxTargets)
	last.Hint = "run an agent of its own for each group of servers, with --db"
	return ts[:maxTargets]
}

// candidate is a server and the ways to log in, best first.
type candidate struct {
	Target
	dir  string // of its socket; "" over TCP
	port int
	dsns []string
	way  string // what to do if none works

	named bool   // by --db
	long  string // a name that tells it from others with the same address
	login login  // what came of the ways
}

// id tells candidates apart, also those with the same address.
func (c *candidate) id() string { return c.key() + "\x00" + strings.Join(c.dsns, "\x00") }

// nameOf is a server's label: the port alone where the socket is at its usual
// place, or loopback leads to it.
func nameOf(at string, port int) string {
	switch at {
	case "", "/var/run/postgresql", "/run/postgresql", "localhost", "127.0.0.1", "::1":
		return strconv.Itoa(port)
	}
	return fmt.Sprintf("%s:%d", at, port)
}

// askAll tries to log in to all candidates, and asks those anew that another
// answer shows to be restarted.
func (f *Finder) askAll(ctx context.Context, found []*candidate) {
	asked := make([]bool, len(found))
	var wg sync.WaitGroup
	for i, c := range found {
		wg.Go(func() { asked[i] = f.enter(ctx, c, false) })
	}
	wg.Wait()
	var fresh []Identity
	for i, c := range found {
		if asked[i] {
			fresh = append(fresh, c.login.id)
		}
	}
	for i, c := range found {
		if !asked[i] && slices.ContainsFunc(fresh, c.login.id.restarted) {
			wg.Go(func() { f.enter(ctx, c, true) })
		}
	}
	wg.Wait()
}

// enter tries to log in, unless that is known or must wait; with again, it
// does so in any case. It says whether it asked.
func (f *Finder) enter(ctx context.Context, c *candidate, again bool) bool {
	if len(c.dsns) == 0 {
		return false
	}
	f.mu.Lock()
	l := f.tried[c.id()]
	f.mu.Unlock()
	ask := l == nil || again || !time.Now().Before(l.again)
	if ask {
		l = f.try(ctx, c, l)
	}
	c.login, c.DSN, c.Missing, c.Hint = *l, l.dsn, l.missing, l.hint
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.tried == nil {
		f.tried = map[string]*login{}
	}
	f.tried[c.id()] = l
	return ask
}

// named lists the servers that were named by DSN.
func (f *Finder) named() []*candidate {
	var out []*candidate
	for _, dsn := range f.DSNs {
		c := &candidate{Target: Target{Kind: metric.Postgres, Found: "named by --db"}, dsns: []string{dsn}, named: true}
		cfg, err := host.ParseDSN(dsn)
		if err != nil {
			c.Name, c.Missing, c.dsns = "named", err.Error(), nil
		} else {
			c.port, c.Name = int(cfg.Port), nameOf(cfg.Host, int(cfg.Port))
			c.long = fmt.Sprintf("%s:%d/%s as %s", cfg.Host, cfg.Port, cfg.Database, cfg.User)
		}
		out = append(out, c)
	}
	return out
}
