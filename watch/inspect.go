package watch

import (
	"context"
	"os"
	"strings"
	"time"

	"headroom/check"
	"headroom/fact"
	"headroom/host"
	"headroom/topic/all"
	"headroom/web/api"
)

// How often the checks are put again. The disk is measured at the start and
// then rarely: it costs up to 2 s of low-priority reads.
const (
	inspectEvery = 5 * time.Minute
	probeEvery   = 6 * time.Hour
	inspectLimit = time.Minute
)

// checksFor lists the checks about servers, or those about the machine, and
// the facts they need.
func checksFor(server bool) (checks []*check.Check, needs []fact.Any) {
	every, _ := all.Checks(all.Topics())
	for _, c := range every {
		about := false
		for _, n := range c.Needs {
			about = about || strings.HasPrefix(n.Key(), "pg.") || strings.HasPrefix(n.Key(), "place.")
		}
		if about == server {
			checks = append(checks, c)
			needs = append(needs, c.Needs...)
		}
	}
	return checks, all.Unique(needs)
}

// inspect puts the checks to the machine (server is "") or to one server that
// r is connected to. It changes nothing.
func inspect(ctx context.Context, r host.Reader, server, version string, probe bool) (api.Inspection, error) {
	ctx, stop := context.WithTimeout(ctx, inspectLimit)
	defer stop()
	name, _ := os.Hostname()
	began := time.Now()
	checks, needs := checksFor(server != "")
	set, err := fact.Gather(ctx, r, fact.Options{Probes: probe, Host: name, Version: version}, needs...)
	if err != nil {
		return api.Inspection{}, err
	}
	return api.Inspection{Host: name, Server: server, At: began, Seconds: time.Since(began).Seconds(), Outcome: check.Run(set, checks)}, nil
}
