package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"headroom/change"
	"headroom/check"
	"headroom/fact"
	"headroom/fail"
	"headroom/host"
	"headroom/pglocal"
	"headroom/probe/pg"
	"headroom/report"
	"headroom/topic/all"
	"headroom/trial"
)

// How the demo's three minutes are spent: the rest is starting and copying.
const (
	demoLoad   = 5 * time.Second // at least; then until checkpoints were asked for
	demoLoads  = 5
	demoBudget = 75 * time.Second
	demoShown  = 5 // findings printed in full
)

func (a *app) demo() *cobra.Command {
	var budget time.Duration
	var major int
	c := &cobra.Command{
		Use:   "demo",
		Short: "Show the whole loop at work on a private PostgreSQL that is thrown away",
		Long: `Starts a stock PostgreSQL of its own, puts an upsert load on it, checks machine
and server, takes the best finding that a private server can prove, plans it,
tries it with and without side by side, applies it, verifies, reverts, and
leaves nothing behind. Your own servers are not touched. About 2 minutes.`,
		Example: "  headroom demo",
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return a.runDemo(c.Context(), budget, major) },
	}
	c.Flags().DurationVar(&budget, "budget", demoBudget, "time for measuring side by side")
	c.Flags().IntVar(&major, "major", 0, "major version of the server, 13 to 18; 0: HEADROOM_MAJOR, else the newest installed")
	return c
}

// show is the state of one demo.
type show struct {
	*app
	out      *report.Output
	progress *report.Progress
	server   *pglocal.Server
	host     *host.Local
	state    string // folder for the demo's own journal
	remove   func() error
	machine  machine
	budget   time.Duration
	major    int
	best     check.Try // what is proved
}

func (a *app) runDemo(ctx context.Context, budget time.Duration, major int) error {
	own, err := host.OwnDirs()
	if err != nil {
		return err
	}
	s := &show{app: a, budget: budget, major: major, progress: report.NewProgress(a.err, os.Getenv)}
	if s.out, err = report.Open(nil, a.terminal, os.Getenv); err != nil {
		return err
	}
	if s.state, s.remove, err = trial.Scratch("", own, s.found); err != nil {
		return fmt.Errorf("make a folder for the demo: %w", err)
	}
	err = s.play(ctx)
	s.progress.Done()
	if cerr := s.close(); cerr != nil {
		return errors.Join(err, cerr)
	}
	if err == nil {
		s.next()
	}
	return err
}

// next says what to run on the user's own server.
func (s *show) next() {
	const db = "--db 'host=/var/run/postgresql user=postgres'"
	fmt.Fprintf(s.app.out, "\nNothing is left behind: the server, its data and its journal are gone.\n\n"+
		"Next, on your own server (the first two change nothing, the third works on private copies):\n"+
		"  headroom check %s\n  headroom plan %s %s\n  headroom try '%s' --on %s\n", db, s.best.Change, db, s.best.Change, s.best.Workload)
}

// close stops the server and removes everything the demo made.
func (s *show) close() error {
	var err error
	if s.host != nil {
		s.host.Close()
	}
	if s.server != nil {
		err = s.server.Stop()
	}
	return errors.Join(err, s.out.Close(), s.remove())
}

// found keeps in sight what a killed run left and what became of it.
func (s *show) found(text string) { s.progress.Note(trial.Found + text) }

func (s *show) step(n int, text string) {
	s.progress.Note("")
	s.progress.Note(fmt.Sprintf("── %d of 6 · %s", n, text))
}

func (s *show) play(ctx context.Context) error {
	s.step(1, "a stock PostgreSQL of our own, under an upsert load")
	if err := s.load(ctx); err != nil {
		return err
	}
	s.step(2, "check: what holds machine and server back")
	best, err := s.check(ctx)
	if err != nil {
		return err
	}
	s.best = *best.Try
	s.step(3, "plan: headroom plan "+best.Try.Change.String())
	p, err := s.plan(ctx, best)
	if err != nil {
		return err
	}
	s.step(4, "try: with and without, side by side, on identical copies")
	if err := s.try(ctx, best); err != nil {
		return err
	}
	s.step(5, "apply: the plan above, verified by reading the server again")
	id, err := s.apply(ctx, p)
	if err != nil {
		return err
	}
	s.step(6, "revert: all as before")
	return s.revert(ctx, id)
}

func (s *show) load(ctx context.Context) error {
	var err error
	s.server, err = pglocal.Start(ctx, pglocal.Options{Name: "headroom-demo", Major: s.major, Fresh: true, Progress: s.progress.Say, Found: s.found})
	if err != nil {
		return err
	}
	s.host = s.server.Host()
	s.machine = machine{db: s.server.DSN(), named: true}
	w, err := workload("pg.upsert")
	if err != nil {
		return err
	}
	params := map[string]string{}
	for _, p := range w.Params {
		params[p.Name] = p.Default
	}
	work, err := w.New(params)
	if err != nil {
		return err
	}
	stand := &trial.Stand{Name: "demo", Host: s.host, DSN: s.server.DSN()}
	if err := work.Setup(ctx, stand, s.progress.Say); err != nil {
		return err
	}
	session, err := work.Open(ctx, stand)
	if err != nil {
		return err
	}
	err = s.upsert(ctx, session, w.Measures[0])
	return errors.Join(err, session.Close())
}

// upsert works until the server has begun three checkpoints because its
// write-ahead log was full, which is what there is to see, or for long enough.
func (s *show) upsert(ctx context.Context, session trial.Session, m trial.Measure) error {
	var rates []float64
	for i := range demoLoads {
		s.progress.Say(fmt.Sprintf("upserting, %s", demoLoad*time.Duration(i+1)))
		round, err := session.Run(ctx, demoLoad, trial.RoundOptions{Seed: uint64(i)})
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		rates = append(rates, round.Figures[m.Name])
		if c, err := pg.ReadCounters(ctx, s.host); err == nil && c.Requested >= 3 {
			break
		}
	}
	s.progress.Note(fmt.Sprintf("PostgreSQL %s, stock settings: %s", s.server.Version, report.Figure(slices.Max(rates), m)))
	return nil
}

// check prints the findings and returns the best that a private server proves.
func (s *show) check(ctx context.Context) (check.Finding, error) {
	checks, needs := all.Checks(all.Topics())
	s.progress.Say("reading facts")
	set, err := s.machine.gather(ctx, s.host, needs)
	if err != nil {
		return check.Finding{}, err
	}
	o := check.Run(set, checks)
	best, ok := provable(o)
	if !ok {
		return best, fail.Hint(errors.New("find something to prove: no finding that a private server can show came up"),
			"run `headroom check` to see what did")
	}
	s.progress.Done()
	if err := s.out.Print("", report.TopFindings(o, set, demoShown, best)); err != nil {
		return best, err
	}
	s.progress = report.NewProgress(s.err, os.Getenv)
	return best, nil
}

// provable is the first finding, in rank order, whose trial runs on a server
// and changes nothing but its settings.
func provable(o check.Outcome) (check.Finding, bool) {
	for _, f := range o.Findings {
		if f.Try == nil || f.Try.Change.ID != "postgres.setting" {
			continue
		}
		if w, err := workload(f.Try.Workload); err == nil && w.Uses == trial.Server {
			return f, true
		}
	}
	return check.Finding{}, false
}

func (s *show) plan(ctx context.Context, f check.Finding) (*change.Plan, error) {
	p, err := all.Prepare(ctx, s.host, s.machine.factOptions(), []change.Spec{f.Try.Change})
	if err != nil {
		return nil, err
	}
	return p, s.out.Print("", report.Plan(p, ""))
}

func (s *show) try(ctx context.Context, f check.Finding) error {
	w, err := workload(f.Try.Workload)
	if err != nil {
		return err
	}
	arm := trial.ArmOf(f.Try.Change)
	exp := trial.Experiment{Name: arm.Name + " on " + w.Name, Workload: w, Params: map[string]string{}, Arms: []trial.Arm{trial.Base(), arm},
		Options: trial.Options{Budget: s.budget, Seed: 1, Major: s.server.Major}}
	t := trying{}
	env, err := t.env(s.host, s.dirs())
	if err != nil {
		return err
	}
	env.Facts, env.Still, env.Fresh = []fact.Any{}, nil, true
	res, err := trial.Run(ctx, exp, env, s.progress.Event)
	s.progress.Done()
	if err != nil {
		return err
	}
	if err := s.out.Print("", report.Trial(res)); err != nil {
		return err
	}
	s.progress = report.NewProgress(s.err, os.Getenv)
	return nil
}

func (s *show) dirs() host.Dirs {
	return host.Dirs{Config: s.state, State: s.state + "/state", Run: s.state + "/run", Cache: s.state + "/cache"}
}

func (s *show) options() change.Options {
	return change.Options{Journal: change.OpenJournal(s.dirs()), Accept: []string{change.AcceptRestart}, Say: s.progress.Note}
}

func (s *show) apply(ctx context.Context, p *change.Plan) (string, error) {
	res, err := change.Apply(ctx, s.host, p, s.options())
	if err != nil {
		return "", err
	}
	return res.ID, s.now(ctx, p, "applied as change "+res.ID)
}

func (s *show) revert(ctx context.Context, id string) error {
	e, err := change.OpenJournal(s.dirs()).Get(id)
	if err != nil {
		return err
	}
	if _, err := change.Revert(ctx, s.host, id, s.options()); err != nil {
		return err
	}
	return s.now(ctx, e.Plan, "reverted change "+id)
}

// now reads the plan's objects again and says what they are.
func (s *show) now(ctx context.Context, p *change.Plan, what string) error {
	for _, st := range p.Steps() {
		state, err := st.Step.Read(ctx, s.host)
		if err != nil {
			return err
		}
		for name, v := range state.Effective {
			fmt.Fprintf(s.app.out, "%s: the server now reads %s = %s\n", what, name, v)
		}
	}
	return nil
}
