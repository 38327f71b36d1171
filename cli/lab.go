package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/spf13/cobra"

	"headroom/fail"
	"headroom/lab"
	"headroom/report"
	"headroom/topic/all"
)

// labbing is what the flags of lab hold.
type labbing struct {
	params []string
	rows   int64
	rules  string
	save   string
	o      lab.Options
}

func labs() (out []*lab.Lab) {
	for _, t := range all.Topics() {
		out = append(out, t.Labs...)
	}
	return out
}

func (a *app) lab() *cobra.Command {
	var l labbing
	c := &cobra.Command{
		Use:   "lab [NAME]",
		Short: "Run a ready-made experiment on private servers, the figures of then beside today's",
		Long: `Without a name it lists the labs; with --list and a name it describes one.

A lab does the same work in several ways, one after the other in random order,
again and again, on private servers that are thrown away; yours are not touched.
It checks that all ways did the same, compares them round by round, and prints
what the source measured then beside today's figures. Each lab runs a stated
smaller size than its source within 3 minutes; --rows and -p scale it.

Fewer than 6 rounds give figures and intervals, but no verdict.

Exit status: 0 done, whatever the verdict; 1 it could not run, or an arm did
other work than the rest; 130 interrupted (whole rounds are printed).`,
		Example: `  headroom lab
  headroom lab upsert
  headroom lab bulk-load --rows 600000 --budget 20m --save bulk.json
  headroom lab distinct -p values=100 --rounds 12 -o html=distinct.html
  headroom lab upsert --list
  headroom lab firewall -p on=wire
  headroom lab firewall --rules old.rules,new.rules`,
		Args: cobra.MaximumNArgs(1),
		ValidArgsFunction: func(*cobra.Command, []string, string) (names []string, _ cobra.ShellCompDirective) {
			for _, l := range labs() {
				names = append(names, l.Name+"\t"+l.Title)
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
	}
	describe := false
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return a.print("Headroom: labs", report.Labs(labs()))
		}
		found, err := lab.Find(labs(), args[0])
		if err != nil {
			return err
		}
		if describe {
			return a.print("Headroom: lab "+found.Name, report.Labs([]*lab.Lab{found}))
		}
		return a.runLab(c.Context(), found, &l, c.Flags().Changed("rows"))
	}
	a.outputFlag(c)
	f := c.Flags()
	f.BoolVar(&describe, "list", false, "describe the lab with its parameters, and do not run it")
	f.StringArrayVarP(&l.params, "param", "p", nil, "a parameter of the lab, name=value")
	f.StringVar(&l.rules, "rules", "", "the same as -p rules=FILE[,FILE…]: your own rule sets as the arms of lab firewall")
	f.Int64Var(&l.rows, "rows", 0, "the same as -p rows=N (or keys=N, where the lab has keys)")
	f.IntVar(&l.o.Rounds, "rounds", 0, "rounds at most, in each of which every arm has a turn (default: the lab's own, 8)")
	f.DurationVar(&l.o.Budget, "budget", 0, "time for measuring; no round begins that would not fit (default: the lab's own, 3 to 6 minutes)")
	f.Uint64Var(&l.o.Seed, "seed", 0, "seed of order and data; the same seed gives the same")
	f.IntVar(&l.o.Major, "major", 0, "major version of the private servers, 13 to 18; 0: HEADROOM_MAJOR, else the newest installed")
	f.StringVar(&l.save, "save", "", "write the result to this file as JSON, for report and compare")
	c.AddCommand(a.labData())
	return c
}

func (a *app) runLab(ctx context.Context, l *lab.Lab, given *labbing, rows bool) error {
	params, err := pairs("--param", given.params)
	if err != nil {
		return err
	}
	if rows {
		if err := setRows(l, params, given.rows); err != nil {
			return err
		}
	}
	if given.rules != "" {
		params["rules"] = given.rules
	}
	o := given.o
	o.Params = params
	if o.Rounds < 0 || o.Budget < 0 {
		return fail.With(errors.New("read options: rounds and budget cannot be negative"), fail.Usage)
	}
	if _, _, err := l.Plan(params); err != nil {
		return err
	}
	out, err := a.open()
	if err != nil {
		return err
	}
	defer out.Close()
	saved, err := report.OpenFile(given.save)
	if err != nil {
		return err
	}
	defer saved.Close()
	progress := report.NewProgress(a.err, os.Getenv)
	defer progress.Done()
	res, err := lab.Run(ctx, l, o, labEnv(), progress.Event)
	progress.Done()
	if res != nil && len(res.Turns) > 0 {
		a.keepResult("lab "+l.Name, res.Started, res.Save)
		if perr := errors.Join(out.Print("Headroom: lab "+l.Name, report.Lab(res)), write(saved, res)); perr != nil {
			return errors.Join(err, perr)
		}
	}
	return err
}

// setRows gives --rows the name that the lab has for it.
func setRows(l *lab.Lab, params map[string]string, n int64) error {
	for _, name := range []string{"rows", "keys"} {
		for _, p := range l.Params {
			if p.Name != name {
				continue
			}
			if _, twice := params[name]; twice {
				return fail.With(fmt.Errorf("read --rows: -p %s is given as well", name), fail.Usage)
			}
			params[name] = strconv.FormatInt(n, 10)
			return nil
		}
	}
	return fail.With(fail.Hint(fmt.Errorf("read --rows: lab %s has no rows to scale", l.Name), "see: headroom lab %s --list", l.Name), fail.Usage)
}

func labEnv() lab.Env {
	e := lab.Env{Version: version}
	e.Host, _ = os.Hostname() // a name for the reader, nothing depends on it
	for _, f := range all.Facts(all.Topics()) {
		if !f.IsProbe() {
			e.Facts = append(e.Facts, f)
		}
	}
	return e
}

func write(f *report.File, res *lab.Result) error {
	var b bytes.Buffer
	if err := res.Save(&b); err != nil {
		return err
	}
	return f.Write(b.Bytes(), 0o644)
}

func loadLab(path string) (*lab.Result, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fail.Hint(fmt.Errorf("read lab: %w", err), "save one with: headroom lab NAME --save %s", path)
	}
	defer f.Close()
	r, err := lab.Load(f)
	if err != nil {
		return nil, fail.With(fmt.Errorf("%s: %w", path, err), fail.Usage)
	}
	return r, nil
}
