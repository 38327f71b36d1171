// Package nginx is the topic of nginx in front of other servers: its
// connections, and requests by the upstream server that answered them.
package nginx

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"headroom/fail"
	"headroom/host"
	"headroom/metric"
	"headroom/probe/nginx"
	"headroom/topic"
)

// Topic is nginx.
var Topic = topic.Topic{
	Name:       "nginx",
	Title:      "nginx: connections, and requests by upstream server",
	Collectors: []*metric.Collector{statusCollector, logCollector},
}

// config is the configuration, read anew each minute.
type config struct {
	at   time.Time
	read bool
	nginx.Config
}

// fresh reads the configuration if it is time to; an old one stays if that
// fails.
func (c *config) fresh(r host.Reader, out *metric.Out) error {
	if d := out.At.Sub(c.at); c.read && d >= 0 && d < time.Minute {
		return nil
	}
	now, err := nginx.Look(r, nginx.File(out.Server()))
	switch {
	case err == nil:
		c.Config, c.read = now, true
	case !c.read:
		return fail.Hint(fmt.Errorf("find out how nginx can be watched: %w", err), "let the account that Headroom runs as read nginx's configuration")
	}
	c.at = out.At
	return nil
}

var (
	accepted = &metric.Def{Name: "nginx_connections_accepted_total", Unit: metric.Count, Kind: metric.Counter,
		Help: "Connections that clients opened.", Source: "stub_status accepts"}
	handled = &metric.Def{Name: "nginx_connections_handled_total", Unit: metric.Count, Kind: metric.Counter,
		Help: "Connections that were served; fewer than accepted: a limit was reached, such as worker_connections.", Source: "stub_status handled"}
	requests = &metric.Def{Name: "nginx_requests_total", Unit: metric.Count, Kind: metric.Counter,
		Help: "Requests of all connections.", Source: "stub_status requests"}
	connections = &metric.Def{Name: "nginx_connections", Unit: metric.Count, Kind: metric.Gauge, Labels: []string{"state"},
		Help: "Connections that are open: reading (a request comes in), writing (it is worked on or answered), waiting (between two requests).", Source: "stub_status Reading, Writing, Waiting"}
)

// statusState is what the collector of the page remembers.
type statusState struct {
	config
	works string // the address that answered last
}

var statusCollector = &metric.Collector{
	Name: "nginx.status", Doc: "connections and requests, by nginx's status page", Of: metric.Nginx, Fast: true,
	Defs: []*metric.Def{accepted, handled, requests, connections},
	Collect: func(ctx context.Context, r host.Reader, out *metric.Out) error {
		s := metric.Kept[statusState](out)
		if err := s.fresh(r, out); err != nil {
			return err
		}
		if len(s.Status) == 0 {
			return fail.Hint(fmt.Errorf("nginx has no status page that can be asked for on loopback: %w", fail.ErrAbsent), "add to its http block, and reload it: %s", nginx.StatusSnippet)
		}
		var errs []error
		for _, at := range append([]string{s.works}, s.Status...) {
			if at == "" {
				continue
			}
			b, err := r.Get(ctx, at)
			if err == nil {
				err = give(out, string(b))
			}
			if err == nil {
				s.works = at
				return nil
			}
			s.works = ""
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	},
}

// give reads
//
//	Active connections: 2
//	server accepts handled requests
//	 5 5 9
//	Reading: 0 Writing: 1 Waiting: 1
func give(out *metric.Out, page string) error {
	f := strings.Fields(page)
	if len(f) != 16 || f[0] != "Active" || f[10] != "Reading:" {
		return fmt.Errorf("read the status page: %.60q is not what nginx writes", page)
	}
	var v [6]float64
	for i, at := range []int{7, 8, 9, 11, 13, 15} {
		n, err := strconv.ParseUint(f[at], 10, 64)
		if err != nil {
			return fmt.Errorf("read the status page: %.20q is not a count", f[at])
		}
		v[i] = float64(n)
	}
	out.Add(accepted, v[0])
	out.Add(handled, v[1])
	out.Add(requests, v[2])
	for i, state := range []string{"reading", "writing", "waiting"} {
		out.Add(connections, v[3+i], state)
	}
	return nil
}
