package cli

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"headroom/fact"
	"headroom/fail"
	"headroom/host"
	"headroom/topic"
	"headroom/topic/all"
)

// machine is the machine and server that a verb works on, from its flags.
type machine struct {
	db      string
	noProbe bool
	root    string
	named   bool // the user named a server, by flag, configuration or PG* variable
}

// flags adds --db and --no-probe to a verb.
func (m *machine) flags(c *cobra.Command, probe bool) {
	c.Flags().StringVar(&m.db, "db", "", "the PostgreSQL server, as libpq takes it: URL, or keyword=value; default: PG* variables, then the local socket")
	if probe {
		c.Flags().BoolVar(&m.noProbe, "no-probe", false, "do not measure the disk (at most 2 s of low-priority reads)")
	}
	c.Flags().StringVar(&m.root, "root", "", "look at a copy of /proc, /sys and /etc below this folder instead of this machine")
}

// open returns the machine; the server is connected at first use.
func (m *machine) open(a *app) *host.Local {
	if m.db == "" {
		m.db = os.Getenv("HEADROOM_DB")
	}
	if m.db == "" {
		m.db = a.config.DB
	}
	m.named = m.db != "" || anyEnv("PGHOST", "PGPORT", "PGSERVICE", "PGDATABASE", "PGUSER", "PGHOSTADDR")
	if a.config.Probe != nil && !*a.config.Probe {
		m.noProbe = true
	}
	return host.Open(host.Options{Root: m.root, DSN: m.db, WithPG: true})
}

func anyEnv(names ...string) bool {
	for _, n := range names {
		if os.Getenv(n) != "" {
			return true
		}
	}
	return false
}

// factOptions say how facts of the machine are gathered.
func (m *machine) factOptions() fact.Options {
	name, _ := os.Hostname()
	return fact.Options{Probes: !m.noProbe, Host: name, Version: version}
}

// gather reads the wanted facts of the machine.
func (m *machine) gather(ctx context.Context, r host.Reader, want []fact.Any) (*fact.Set, error) {
	return fact.Gather(ctx, r, m.factOptions(), want...)
}

// loadFacts reads a file that `facts --save` wrote.
func loadFacts(path string) (*fact.Set, []string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, fail.Hint(fmt.Errorf("read facts: %w", err), "make one with: headroom facts --save %s", path)
	}
	defer f.Close()
	set, skipped, err := fact.Load(f, all.Facts(all.Topics()))
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	return set, skipped, nil
}

// pickTopics returns the topics named, or all.
func pickTopics(names []string) ([]topic.Topic, error) {
	known := all.Topics()
	if len(names) == 0 {
		return known, nil
	}
	var out []topic.Topic
	for _, n := range names {
		found := false
		for _, t := range known {
			if t.Name == n {
				out, found = append(out, t), true
			}
		}
		if !found {
			return nil, fail.With(fail.Hint(fmt.Errorf("no topic %q", n), "there are: %s", strings.Join(topicNames(known), ", ")), fail.Usage)
		}
	}
	return out, nil
}

func topicNames(ts []topic.Topic) (out []string) {
	for _, t := range ts {
		out = append(out, t.Name)
	}
	return out
}
