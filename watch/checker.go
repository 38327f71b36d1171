package watch

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"headroom/agent"
	"headroom/host"
	"headroom/metric"
	"headroom/peer"
)

// checker puts the checks to the machine and its servers, at the start and
// every few minutes. The newest answers are kept.
type checker struct {
	host    string
	version string
	every   time.Duration
	targets func() []agent.Target
	say     func(string)
	keep    func(ctx context.Context, body []byte) error // what was found, for the store; may be nil

	mu     sync.Mutex
	latest map[string]peer.Inspection
}

// list returns the newest answers, the machine's first.
func (c *checker) list() []peer.Inspection {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]peer.Inspection, 0, len(c.latest))
	for _, i := range c.latest {
		out = append(out, i)
	}
	slices.SortFunc(out, func(a, b peer.Inspection) int { return strings.Compare(a.Server, b.Server) })
	return out
}

// run checks until the context ends. The disk is measured in the second round
// at the earliest: the first is to be there within seconds.
func (c *checker) run(ctx context.Context) error {
	probed := time.Now().Add(-probeEvery)
	soon := 2 * time.Second // servers found meanwhile are not to wait minutes
	for round := 0; ; round++ {
		probe := round > 1 && time.Since(probed) >= probeEvery
		if probe {
			probed = time.Now()
		}
		c.round(ctx, probe, round < 2)
		c.tell(ctx)
		pause := c.every
		if round < 2 {
			pause = soon
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}

// round puts the checks to everything; with only, to what has no answer yet.
func (c *checker) round(ctx context.Context, probe, only bool) {
	machine := host.Open(host.Options{})
	defer machine.Close()
	c.one(ctx, machine, "", probe, only)
	targets := c.targets()
	c.forget(targets)
	for _, t := range targets {
		if t.Kind != metric.Postgres || t.DSN == "" || !t.Gone.IsZero() || t.Missing != "" {
			continue
		}
		h := host.Open(host.Options{DSN: t.DSN, WithPG: true})
		c.one(ctx, h, t.Name, probe, only)
		h.Close()
	}
}

// forget drops the answers of servers that are no targets any more.
func (c *checker) forget(targets []agent.Target) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for server := range c.latest {
		if server != "" && !slices.ContainsFunc(targets, func(t agent.Target) bool { return t.Kind == metric.Postgres && t.Name == server }) {
			delete(c.latest, server)
		}
	}
}

func (c *checker) one(ctx context.Context, r host.Reader, server string, probe, only bool) {
	c.mu.Lock()
	_, has := c.latest[server]
	c.mu.Unlock()
	if only && has || ctx.Err() != nil {
		return
	}
	in, err := inspect(ctx, r, c.host, server, c.version, probe)
	if err != nil {
		if ctx.Err() == nil {
			c.say("the checks could not be put: " + err.Error())
		}
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.latest == nil {
		c.latest = map[string]peer.Inspection{}
	}
	if server == "" {
		apart(&in.Outcome, nil)
	} else if m, ok := c.latest[""]; ok {
		apart(&m.Outcome, &in.Outcome)
	}
	c.latest[server] = in
}

// told is a finding as the store's history has it: without the figures, which
// differ each time.
type told struct {
	Server   string `json:"server,omitempty"`
	Check    string `json:"check"`
	Subject  string `json:"subject"`
	Severity string `json:"severity"`
}

// tell hands what is found now to the store, which keeps it if it differs from
// the time before. A store that is away hears of it in the next round.
func (c *checker) tell(ctx context.Context) {
	if c.keep == nil || ctx.Err() != nil {
		return
	}
	_ = c.keep(ctx, brief(c.list())) // a store that is away is told of elsewhere
}

// briefly lists findings without their figures, in an order that stays.
func briefly(inspections []peer.Inspection) []told {
	list := []told{}
	for _, in := range inspections {
		for _, f := range in.Outcome.Findings {
			list = append(list, told{in.Server, f.Check, f.Subject, f.Severity.String()})
		}
	}
	slices.SortFunc(list, func(a, b told) int {
		return cmp.Or(strings.Compare(a.Server, b.Server), strings.Compare(a.Check, b.Check), strings.Compare(a.Subject, b.Subject))
	})
	return list
}
