// Package watch joins the parts of `headroom up` into one running thing:
// collectors, queue, store, checks, answers and pages. Each part may be away
// (the store above all) without taking another with it.
package watch

import (
	"fmt"
	"time"

	"headroom/fail"
	"headroom/host"
	"headroom/store"
)

// Options says what to run. Zero values are the defaults of `headroom up`.
type Options struct {
	Dirs    host.Dirs
	Version string
	Host    string // name of this machine; "": its own

	Listen       string   // address; "": 127.0.0.1:8420
	Cert, Key    string   // files, for https
	Hosts        []string // names under which the page may be asked for besides loopback's
	AllowChanges bool     // the page may apply plans

	Store      string // connection string; "": a private server below Dirs.State
	Retention  string // "": store's default
	QueueBytes int64  // what the queue may hold; 0: 2 GiB
	NATS       string // URL of a cluster to queue in; "": on this machine
	NATSCreds  string // its credentials file

	Servers   []string      // connection strings of servers to watch besides those found
	NoCollect bool          // only take what agents send
	Every     time.Duration // for tests: how often the checks are put; 0: 5 minutes

	Silent time.Duration // for tests: without a word for so long another host is silent; 0: 2 minutes

	// Say is told what a person should read, a line each; Ready is called
	// once, with the login link, when the page answers.
	Say   func(string)
	Ready func(link string)
}

func (o Options) withDefaults() Options {
	if o.Listen == "" {
		o.Listen = "127.0.0.1:8420"
	}
	if o.QueueBytes == 0 {
		o.QueueBytes = 2 << 30
	}
	if o.Every == 0 {
		o.Every = inspectEvery
	}
	if o.Say == nil {
		o.Say = func(string) {}
	}
	if o.Ready == nil {
		o.Ready = func(string) {}
	}
	return o
}

// check refuses what can never work; the rest is tried again while it runs.
func (o Options) check() error {
	if o.Retention != "" {
		if _, err := store.ParseRetention(o.Retention); err != nil {
			return fail.With(err, fail.Usage)
		}
	}
	if _, err := host.ParseDSN(o.Store); o.Store != "" && err != nil {
		return fmt.Errorf("use --store: %w", err)
	}
	return checkServers(o.Servers)
}

func checkServers(dsns []string) error {
	for _, dsn := range dsns {
		if _, err := host.ParseDSN(dsn); err != nil {
			return fmt.Errorf("watch --db: %w", err)
		}
	}
	return nil
}
