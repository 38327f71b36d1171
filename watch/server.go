package watch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"headroom/agent"
	"headroom/change"
	"headroom/fact"
	"headroom/host"
	"headroom/metric"
	"headroom/web"
	"headroom/web/api"
	"headroom/web/auth"
	"headroom/web/page"
)

// finder finds what runs here, and the servers that were named.
func finder(o host.Dirs, servers []string) func(context.Context) []agent.Target {
	f := &agent.Finder{Reader: host.Open(host.Options{}), DSNs: servers, Skip: []string{filepath.Join(o.State, "store"), filepath.Join(o.Cache, "pg")}}
	return f.Find
}

// server makes the pages and answers; it listens already, also on a socket for
// the commands of this machine.
func (w *watcher) server(socket string) (*web.Server, error) {
	parts := w.parts()
	answers := api.New(parts)
	w.answers = answers
	w.house.known = answers.Know
	return web.New(web.Options{
		Listen: w.o.Listen, Socket: socket, CertFile: w.o.Cert, KeyFile: w.o.Key, Hosts: w.o.Hosts,
		API: answers, Pages: page.New(page.Options{Parts: parts, AllowChanges: w.o.AllowChanges}),
		Tokens: auth.OpenTokens(w.place.path("tokens.json")), Sessions: auth.OpenSessions(w.place.path("sessions.json")),
		Log: w.o.Say,
	})
}

// parts are what answers and pages are made of.
func (w *watcher) parts() api.Parts {
	return api.Parts{
		Host: w.o.Host, Version: w.o.Version, Queue: w.queue, Hub: w.hub,
		Store: func() (api.Store, error) {
			s, err := w.house.get()
			if err != nil {
				return nil, err
			}
			return s, nil
		},
		Decoder: &w.decoder,
		StoreStatus: func(ctx context.Context) (any, error) {
			s, err := w.house.get()
			if err != nil {
				return nil, err
			}
			st, err := s.Status(ctx)
			return st, host.Plainly(err)
		},
		Worker: w.workerState, Defs: defs(), Findings: w.checks.list,
		Journal: change.OpenJournal(w.o.Dirs), Trials: filepath.Join(w.o.Dirs.State, "results"),
		Gaps: w.gaps, Targets: w.targets, Sessions: w.sessions, Hosts: w.hosts, Changes: w.changes(), Usage: Usage(w.o.Dirs), Log: w.o.Say,
	}
}

func defs() (out []*metric.Def) {
	for _, c := range collectors() {
		for _, d := range c.Defs {
			if !slices.Contains(out, d) {
				out = append(out, d)
			}
		}
	}
	return out
}

// changes is what plans need: the machine, and the server that a plan names.
func (w *watcher) changes() *api.Changes {
	return &api.Changes{
		Allow:  w.o.AllowChanges,
		Open:   w.open,
		Facts:  fact.Options{Host: w.o.Host, Version: w.o.Version},
		Folder: w.plans(),
		Options: func() change.Options {
			return change.Options{Journal: change.OpenJournal(w.o.Dirs), Say: w.o.Say, Guard: guard()}
		},
	}
}

// plans is the folder of plans, which the command line has, too; where root made
// that one and we are not root, one of our own.
func (w *watcher) plans() string {
	dir := filepath.Join(w.o.Dirs.State, "plans")
	if _, err := os.Stat(dir); err == nil && unix.Access(dir, unix.W_OK|unix.X_OK) != nil {
		return w.place.path("plans")
	}
	return dir
}

// guard is the process that takes back what nobody confirms.
func guard() *host.Cmd {
	self, err := os.Executable()
	if err != nil {
		return nil
	}
	return &host.Cmd{Argv: []string{self, "guard"}, Env: os.Environ()}
}

// open opens the machine with the server of a label, or of a plan.
func (w *watcher) open(server string, plan *change.Plan) (*host.Local, error) {
	if plan != nil && plan.Server != nil {
		return host.Open(host.Options{DSN: plan.Server.Conninfo(), WithPG: true}), nil
	}
	var found []agent.Target
	for _, t := range w.targets() {
		if t.Kind == metric.Postgres && t.DSN != "" && (server == "" || t.Name == server) {
			found = append(found, t)
		}
	}
	switch {
	case server == "" && len(found) != 1:
		return host.Open(host.Options{}), nil
	case len(found) == 0:
		return nil, fmt.Errorf("plan for server %q: it is not watched here", server)
	}
	return host.Open(host.Options{DSN: found[0].DSN, WithPG: true}), nil
}

// link prints where the page is.
func (w *watcher) link(s *web.Server) error {
	r := running{URL: s.URL(), Changes: w.o.AllowChanges}
	if r.URL == "" {
		return errors.New("tell where the page is: it has no address")
	}
	if err := w.place.tell(r); err != nil {
		return err
	}
	text, err := w.place.link(r)
	if errors.Is(err, auth.ErrDamaged) {
		text, err = w.place.relink(r, w.o.Say)
	}
	if err != nil {
		return err
	}
	w.o.Ready(text)
	return nil
}
