package agent

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"headroom/fail"
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
	// Knock tries to log in; nil: for real.
	Knock func(ctx context.Context, kind metric.Target, dsn string) error

	mu    sync.Mutex
	tried map[string]*login
}

// login is what came of trying to log in to one server.
type login struct {
	dsn           string // "" if none worked
	missing, hint string
	again         time.Time // no try before
	pause         time.Duration
}

// Discover finds what runs on this machine, once: servers of PostgreSQL by
// socket, port and process, PgBouncer, nginx, and those that DSNs name. A
// server that was found and cannot be used says what is missing.
func Discover(ctx context.Context, r host.Reader, dsns ...string) []Target {
	return (&Finder{Reader: r, DSNs: dsns}).Find(ctx)
}

// Find looks once. Targets come by kind and name.
func (f *Finder) Find(ctx context.Context) []Target {
	ps, err := processes(f.Reader, "postgres", "postmaster", "pgbouncer", "nginx")
	if err != nil {
		ps = nil // sockets and ports still tell
	}
	unix, tcp := unixListeners(f.Reader), tcpListeners(f.Reader)
	pools := f.poolers(ps, unix, tcp)
	found := f.named() // first: they win over what is found
	found = append(found, f.servers(ps, unix, tcp, pools)...)
	found = append(found, pools...)
	slices.SortStableFunc(found, func(a, b *candidate) int { return cmp.Compare(a.key(), b.key()) })
	found = slices.CompactFunc(found, func(a, b *candidate) bool { return a.key() == b.key() })
	var wg sync.WaitGroup
	for _, c := range found[:min(len(found), maxTargets)] {
		wg.Go(func() { f.enter(ctx, c) })
	}
	wg.Wait()
	f.forget(found)
	var out []Target
	for _, c := range found {
		out = append(out, c.Target)
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
		if !slices.ContainsFunc(found, func(c *candidate) bool { return c.key() == key }) {
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
}

// nameOf is a server's label: the port alone where the socket is at its usual
// place, or loopback leads to it.
func nameOf(at string, port int) string {
	switch at {
	case "", "/var/run/postgresql", "/run/postgresql", "localhost", "127.0.0.1", "::1":
		return strconv.Itoa(port)
	}
	return fmt.Sprintf("%s:%d", at, port)
}

// enter tries to log in, unless that is known or must wait.
func (f *Finder) enter(ctx context.Context, c *candidate) {
	if len(c.dsns) == 0 {
		return
	}
	f.mu.Lock()
	l := f.tried[c.key()]
	f.mu.Unlock()
	if l == nil {
		l = &login{}
	}
	if l.dsn == "" && !time.Now().Before(l.again) {
		l = f.try(ctx, c, l.pause)
	}
	c.DSN, c.Missing, c.Hint = l.dsn, l.missing, l.hint
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.tried == nil {
		f.tried = map[string]*login{}
	}
	f.tried[c.key()] = l
}

// loginWait bounds one try to log in.
const loginWait = 2 * time.Second

// try logs in by each way until one works.
func (f *Finder) try(ctx context.Context, c *candidate, pause time.Duration) *login {
	knock := f.Knock
	if knock == nil {
		knock = realKnock
	}
	var first error
	for _, dsn := range c.dsns {
		err := knock(ctx, c.Kind, dsn)
		if err == nil || !loginRefused(err) {
			return &login{dsn: dsn} // a server that does not answer now is for the rounds to tell
		}
		if first == nil {
			first = err
		}
	}
	pause = min(max(2*pause, findEvery), loginEvery)
	return &login{
		missing: fmt.Sprintf("found (%s), but cannot log in: %v", c.Found, first), hint: cmp.Or(c.way, fail.HintOf(first)),
		pause: pause, again: time.Now().Add(pause - time.Second),
	}
}

func realKnock(ctx context.Context, kind metric.Target, dsn string) error {
	ctx, stop := context.WithTimeout(ctx, loginWait)
	defer stop()
	l := host.Open(host.Options{DSN: dsn, WithPG: true})
	defer l.Close()
	if kind == metric.PgBouncer {
		_, err := l.Console(ctx, "show version")
		return err
	}
	return l.Ping(ctx)
}

// named lists the servers that were named by DSN.
func (f *Finder) named() []*candidate {
	var out []*candidate
	for _, dsn := range f.DSNs {
		c := &candidate{Target: Target{Kind: metric.Postgres, Found: "named by --db"}, dsns: []string{dsn}}
		cfg, err := host.ParseDSN(dsn)
		if err != nil {
			c.Name, c.Missing, c.dsns = "named", err.Error(), nil
		} else {
			c.Name = nameOf(cfg.Host, int(cfg.Port))
		}
		out = append(out, c)
	}
	return out
}
