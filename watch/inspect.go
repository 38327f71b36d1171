package watch

import (
	"context"
	"slices"
	"strings"
	"time"

	"headroom/check"
	"headroom/fact"
	"headroom/host"
	"headroom/peer"
	"headroom/topic/all"
)

// How often the checks are put again. The disk is measured at the start and
// then rarely: it costs up to 2 s of low-priority reads.
const (
	inspectEvery = 5 * time.Minute
	probeEvery   = 6 * time.Hour
	inspectLimit = time.Minute
)

// checksFor lists the checks for the machine, or those for a server on it, and
// the facts they need. What only a server's catalog can tell is asked of
// servers alone; where a server's files lie is asked of both.
func checksFor(server bool) (checks []*check.Check, needs []fact.Any) {
	every, _ := all.Checks(all.Topics())
	for _, c := range every {
		catalog, files := false, false
		for _, n := range c.Needs {
			catalog = catalog || strings.HasPrefix(n.Key(), "pg.")
			files = files || n.Key() == "place.layout"
		}
		if server && (catalog || files) || !server && !catalog {
			checks = append(checks, c)
			needs = append(needs, c.Needs...)
		}
	}
	return checks, all.Unique(needs)
}

// apart leaves out of a server's answers what the machine's hold already, and
// of the machine's the questions that only a server could answer.
func apart(machine, server *check.Outcome) {
	if machine != nil && server != nil {
		server.Findings = slices.DeleteFunc(server.Findings, func(f check.Finding) bool {
			return slices.ContainsFunc(machine.Findings, func(m check.Finding) bool { return m.Check == f.Check && m.Subject == f.Subject })
		})
	}
	if machine != nil {
		machine.NotChecked = slices.DeleteFunc(machine.NotChecked, func(u check.Unchecked) bool { return strings.Contains(u.Because, "no server named") })
	}
}

// inspect puts the checks to the machine (server is "") or to one server that
// r is connected to. It changes nothing.
func inspect(ctx context.Context, r host.Reader, name, server, version string, probe bool) (peer.Inspection, error) {
	ctx, stop := context.WithTimeout(ctx, inspectLimit)
	defer stop()
	began := time.Now()
	checks, needs := checksFor(server != "")
	set, err := fact.Gather(ctx, r, fact.Options{Probes: probe, Host: name, Version: version}, needs...)
	if err != nil {
		return peer.Inspection{}, err
	}
	return peer.Inspection{Host: name, Server: server, At: began, Seconds: time.Since(began).Seconds(), Outcome: check.Run(set, checks)}, nil
}
