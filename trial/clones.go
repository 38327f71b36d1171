package trial

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"headroom/change"
	"headroom/crash"
	"headroom/host"
	"headroom/pglocal"
)

// teardownLimit bounds what is put back and removed at the end.
const teardownLimit = 60 * time.Second

// clones is a stage of private servers: a copy of the origin for each arm, the
// base too, so that no arm has the original's files and the other a copy's.
//
// While one arm works the other servers idle. Nothing is forced on a server
// before a round, above all no checkpoint: each arm keeps its own cycle of
// checkpoints, because that is part of what a change may alter. Once, when the
// changes are in force, every server does a checkpoint, so that all cycles
// begin alike; the warm-up that follows takes the burst of full-page images.
type clones struct {
	env     Env
	work    Work
	arms    []Arm
	servers []*pglocal.Server
	hosts   []*host.Local
	open    []Session
	changed bool
	plans   []json.RawMessage
	version string
}

func (s site) openClones(ctx context.Context, origin *pglocal.Server, where string) (opened, error) {
	c := &clones{env: s.env, work: s.work, arms: s.exp.Arms, version: where,
		open: make([]Session, len(s.exp.Arms)), plans: make([]json.RawMessage, len(s.exp.Arms))}
	for _, a := range s.exp.Arms {
		s.say("copying the server for arm " + a.Name)
		sv, err := origin.Clone(ctx)
		if err != nil {
			return nil, errors.Join(err, c.close())
		}
		crash.At("trial.cloned")
		c.servers, c.hosts = append(c.servers, sv), append(c.hosts, sv.Host())
	}
	for i := range c.arms {
		if err := c.connect(ctx, i); err != nil {
			return nil, errors.Join(err, c.close())
		}
	}
	return c, nil
}

func (c *clones) stand(i int) *Stand {
	return &Stand{Name: c.arms[i].Name, Host: c.hosts[i], DSN: c.servers[i].DSN()}
}

func (c *clones) connect(ctx context.Context, i int) error {
	var err error
	if c.open[i], err = c.work.Open(ctx, c.stand(i)); err != nil {
		return fmt.Errorf("open arm %s: %w", c.arms[i].Name, err)
	}
	return nil
}

func (c *clones) where() string                           { return c.version + ", a server for each arm" }
func (c *clones) shared() bool                            { return false }
func (c *clones) equal() bool                             { return !c.changed || !anyChange(c.arms) }
func (c *clones) session(arm int) Session                 { return c.open[arm] }
func (c *clones) turn(context.Context, int) (bool, error) { return false, nil }

func (c *clones) watch(ctx context.Context, arm int) func(context.Context, Round) seen {
	return watcher{machine: c.hosts[arm], server: c.hosts[arm], pid: c.servers[arm].PID()}.begin(ctx)
}

func (c *clones) facts(ctx context.Context) (json.RawMessage, map[string]string, error) {
	return c.env.keepFacts(ctx, c.hosts[0])
}

// change applies each arm's changes on its own server, as `apply` would.
func (c *clones) change(ctx context.Context, say func(string)) ([]json.RawMessage, error) {
	if c.changed || !anyChange(c.arms) {
		c.changed = true
		return c.plans, nil
	}
	for i, a := range c.arms {
		if len(a.Changes) > 0 {
			if err := c.apply(ctx, i, say); err != nil {
				return nil, fmt.Errorf("change arm %s: %w", a.Name, err)
			}
		}
	}
	c.changed = true
	crash.At("trial.changed")
	for _, h := range c.hosts {
		if err := h.PGExec(ctx, "checkpoint"); err != nil {
			return nil, fmt.Errorf("begin all arms with a checkpoint: %w", err)
		}
	}
	return c.plans, nil
}

func (c *clones) apply(ctx context.Context, i int, say func(string)) error {
	cs, err := c.env.changes(ctx, c.hosts[i], c.arms[i])
	if err != nil {
		return err
	}
	plan, err := change.Prepare(ctx, c.hosts[i], cs...)
	if err != nil {
		return err
	}
	if c.plans[i], err = json.Marshal(plan); err != nil {
		return err
	}
	if plan.Restarts() {
		if err := c.open[i].Close(); err != nil {
			return err
		}
		c.open[i] = nil
	}
	// The journal of a private server goes with its folder.
	own := filepath.Join(filepath.Dir(c.servers[i].DataDir), "journal")
	_, err = change.Apply(ctx, c.hosts[i], plan, change.Options{
		Journal: change.OpenJournal(host.Dirs{State: own, Run: own}), Accept: []string{change.AcceptRestart}, Say: say})
	if err != nil || !plan.Restarts() {
		return err
	}
	return c.connect(ctx, i)
}

// close stops all servers at once; their folders go with them.
func (c *clones) close() error {
	errs := make([]error, len(c.servers))
	for _, s := range c.open {
		if s != nil {
			// What closing a connection says does not matter to a server that
			// is thrown away.
			_ = s.Close()
		}
	}
	var all sync.WaitGroup
	for i, s := range c.servers {
		all.Go(func() {
			c.hosts[i].Close()
			errs[i] = s.Stop()
		})
	}
	all.Wait()
	return errors.Join(errs...)
}
