package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"headroom/change"
	"headroom/fact"
	"headroom/fail"
	"headroom/host"
	"headroom/report"
	"headroom/topic/all"
	"headroom/trial"
)

// trying is what the flags of try hold.
type trying struct {
	machine
	on, params, with []string
	arms, sweeps     []string
	scratch          string
	bench            string
	o                trial.Options
}

func (a *app) try() *cobra.Command {
	var t trying
	c := &cobra.Command{
		Use:   "try CHANGE… --on WORKLOAD",
		Short: "Run a workload with and without a change, interleaved, and say what the difference is",
		Long: `Runs the workload with and without the change in short rounds, in random order
within each block, and compares block by block. It first measures how much two
equal servers differ here, says which effect it can see, and stops as soon as it
is sure: faster, slower, no difference seen, or how many rounds are missing.

Each arm has a private server of its own, with identical data; yours is not
touched. A change of the machine itself (disk.queue, memory.sysctl) needs
--live: it is applied and taken back around each block, through the journal.
With --live --db DSN the workload runs on that server, in a schema of its own.

The changes given make one arm. --arm NAME='CHANGE; CHANGE' adds an arm, --sweep
NAME=V1,V2,… one arm for each value of a setting.

Exit status: 0 done, whatever the verdict; 1 the trial could not run; 130
interrupted (what was measured is printed all the same).`,
		Example: `  headroom try 'postgres.setting max_wal_size=10GB' --on pg.upsert
  headroom try --sweep shared_buffers=128MB,1GB,4GB --on pg.select --budget 5m
  headroom try 'postgres.setting wal_compression=lz4' --on pg.tpcb -p scale=50 -o html=trial.html -o json=trial.json
  headroom try 'postgres.setting jit=off' --on pg.script -p files=report.sql@3,lookup.sql --rate 200`,
		ValidArgsFunction: completeChanges,
		RunE:              func(c *cobra.Command, words []string) error { return a.runTry(c.Context(), &t, words) },
	}
	t.flags(c, false)
	a.outputFlag(c)
	f := c.Flags()
	f.StringArrayVar(&t.on, "on", nil, "the workload: "+joinWorkloads())
	f.StringArrayVarP(&t.params, "param", "p", nil, "a parameter of the workload, name=value; see headroom workloads")
	f.StringArrayVar(&t.arms, "arm", nil, "another arm: NAME='CHANGE; CHANGE'")
	f.StringArrayVar(&t.sweeps, "sweep", nil, "one arm for each value: [ID] NAME=V1,V2,… (ID: postgres.setting)")
	f.StringArrayVar(&t.with, "with", nil, "a setting of all private servers, name=value, on top of stock")
	f.IntVar(&t.o.Major, "major", 0, "major version of the private servers, 13 to 18; 0: HEADROOM_MAJOR, else the newest installed")
	f.DurationVar(&t.o.Budget, "budget", 0, "time for measuring (default 2m)")
	f.DurationVar(&t.o.Round, "round", 0, "length of one round (default: so that ten blocks fit)")
	f.Float64Var(&t.o.Rate, "rate", 0, "operations per second offered to each arm; latency counts from when each was due, and decides (default: as fast as possible)")
	f.Float64Var(&t.o.Effect, "effect", 0, "smallest difference worth finding, a share (default 0.05)")
	f.Float64Var(&t.o.Margin, "margin", 0, "difference that is never called one, a share (default 0.01)")
	f.Uint64Var(&t.o.Seed, "seed", 0, "seed of order and data; the same seed gives the same")
	f.BoolVar(&t.o.Live, "live", false, "consent: work on this machine or, with --db, on that server, and change it for the time of the trial")
	f.StringSliceVar(&t.o.Accept, "accept", nil, "take a risk by name: restart (with --live)")
	f.StringVar(&t.bench, "bench", "", "write the rounds to this file in Go's benchmark format, for benchstat")
	f.StringVar(&t.scratch, "scratch", "", "folder for the files of disk workloads (default: the cache folder)")
	return c
}

func joinWorkloads() string {
	var out []string
	for _, w := range workloads() {
		out = append(out, w.Name)
	}
	return strings.Join(out, ", ")
}

func (a *app) runTry(ctx context.Context, t *trying, words []string) error {
	exp, err := t.experiment(words, a.config.Budget)
	if err != nil {
		return err
	}
	out, err := a.open()
	if err != nil {
		return err
	}
	defer out.Close()
	bench, err := report.OpenFile(t.bench)
	if err != nil {
		return err
	}
	defer bench.Close()
	h := t.open(a)
	defer h.Close()
	dirs, err := host.OwnDirs()
	if err != nil {
		return err
	}
	if t.o.Live {
		if _, _, err := a.changerOn(ctx, h, dirs); err != nil {
			return err
		}
	}
	progress := report.NewProgress(a.err, os.Getenv)
	defer progress.Done()
	env, err := t.env(h, dirs)
	if err != nil {
		return err
	}
	res, err := trial.Run(ctx, exp, env, progress.Event)
	progress.Done()
	if res != nil && len(res.Rounds) > 0 {
		a.keepResult(res.Name, res.Started, res.Save)
		if perr := errors.Join(out.Print("Headroom: trial", report.Trial(res)), saveBench(bench, res)); perr != nil {
			return errors.Join(err, perr)
		}
	}
	return err
}

func saveBench(f *report.File, res *trial.Result) error {
	var b bytes.Buffer
	if err := res.Bench(&b); err != nil {
		return err
	}
	return f.Write(b.Bytes(), 0o644)
}

// experiment makes the arms of the command line.
func (t *trying) experiment(words []string, budget string) (trial.Experiment, error) {
	exp := trial.Experiment{Arms: []trial.Arm{trial.Base()}, Params: map[string]string{}, Options: t.o}
	var err error
	if len(t.on) > 1 {
		return exp, fail.With(errors.New("read --on: one workload at a time"), fail.Usage)
	}
	if exp.Workload, err = workload(strings.Join(t.on, "")); err != nil {
		return exp, err
	}
	if exp.Options.Budget == 0 && budget != "" {
		if exp.Options.Budget, err = time.ParseDuration(budget); err != nil {
			return exp, fail.With(fmt.Errorf("read budget in config.toml: %w", err), fail.Usage)
		}
	}
	if exp.Params, err = pairs("--param", t.params); err != nil {
		return exp, err
	}
	if exp.Options.With, err = pairs("--with", t.with); err != nil {
		return exp, err
	}
	if err := t.addArms(&exp, words); err != nil {
		return exp, err
	}
	if len(exp.Arms) < 2 {
		return exp, fail.With(fail.Hint(errors.New("nothing to try: no change given"),
			"write: headroom try 'postgres.setting max_wal_size=10GB' --on pg.upsert"), fail.Usage)
	}
	var names []string
	for _, arm := range exp.Arms[1:] {
		names = append(names, arm.Name)
	}
	exp.Name = strings.Join(names, ", ") + " on " + exp.Workload.Name
	exp.Question = "What does " + strings.Join(names, " or ") + " do for " + exp.Workload.Name + " on this machine?"
	return exp, nil
}

func (t *trying) addArms(exp *trial.Experiment, words []string) error {
	if len(words) > 0 {
		asked, err := specs(words)
		if err != nil {
			return err
		}
		exp.Arms = append(exp.Arms, trial.ArmOf(asked...))
	}
	for _, text := range t.arms {
		name, list, ok := strings.Cut(text, "=")
		if !ok || name == "" || list == "" {
			return fail.With(fail.Hint(fmt.Errorf("read --arm %q: not NAME=CHANGE", text), "write: --arm big='postgres.setting shared_buffers=4GB; postgres.setting work_mem=64MB'"), fail.Usage)
		}
		var cs []change.Spec
		for _, one := range strings.Split(list, ";") {
			s, err := change.ParseSpec(strings.TrimSpace(one))
			if err != nil {
				return err
			}
			cs = append(cs, s)
		}
		arm := trial.ArmOf(cs...)
		arm.Name = name
		exp.Arms = append(exp.Arms, arm)
	}
	for _, text := range t.sweeps {
		id, object := "postgres.setting", ""
		words := strings.Fields(text)
		if len(words) > 1 {
			id, text = words[0], words[len(words)-1]
			object = strings.Join(words[1:len(words)-1], " ")
		}
		arms, err := trial.Sweep(id, object, text)
		if err != nil {
			return err
		}
		exp.Arms = append(exp.Arms, arms...)
	}
	return nil
}

// pairs reads name=value words.
func pairs(flag string, words []string) (map[string]string, error) {
	out := map[string]string{}
	for _, w := range words {
		name, value, ok := strings.Cut(w, "=")
		if !ok || name == "" {
			return nil, fail.With(fmt.Errorf("read %s %q: not name=value", flag, w), fail.Usage)
		}
		if _, twice := out[name]; twice {
			return nil, fail.With(fmt.Errorf("read %s: %s is given twice", flag, name), fail.Usage)
		}
		out[name] = value
	}
	return out, nil
}

// env is the world that the trial runs in.
func (t *trying) env(h *host.Local, dirs host.Dirs) (trial.Env, error) {
	e := trial.Env{Recipes: all.Recipes(), Dirs: dirs, Version: version}
	e.Host, _ = os.Hostname()
	for _, f := range all.Facts(all.Topics()) {
		if !f.IsProbe() {
			e.Facts = append(e.Facts, f)
		}
	}
	e.Still = stillFacts(e.Facts)
	if t.o.Live {
		e.Live = &trial.Stand{Name: "live", Host: h, Live: true, Dir: t.scratch}
		if e.Live.DSN = t.db; t.named && t.db == "" {
			e.Live.DSN = "application_name=headroom" // the rest is in PG* variables
		}
	}
	return e, nil
}

// stillFacts are those that only a change moves.
func stillFacts(known []fact.Any) (out []fact.Any) {
	for _, f := range known {
		for _, name := range all.Still() {
			if f.Key() == name {
				out = append(out, f)
			}
		}
	}
	return out
}

// changerOn settles what an earlier, interrupted change left on the live
// machine before a trial changes it.
func (a *app) changerOn(ctx context.Context, h *host.Local, dirs host.Dirs) (*host.Local, change.Options, error) {
	o := change.Options{Journal: change.OpenJournal(dirs), Say: a.progress}
	found, err := change.Recover(ctx, h, o)
	for _, f := range found {
		fmt.Fprintln(a.err, "found: "+f.Text)
	}
	return h, o, err
}
