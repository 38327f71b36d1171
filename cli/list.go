package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"headroom/change"
	"headroom/fail"
	"headroom/report"
	"headroom/topic/all"
	"headroom/trial"
)

func workloads() (out []*trial.Workload) {
	for _, t := range all.Topics() {
		out = append(out, t.Workloads...)
	}
	return out
}

// workload finds one by name.
func workload(name string) (*trial.Workload, error) {
	var known []string
	for _, w := range workloads() {
		if w.Name == name {
			return w, nil
		}
		known = append(known, w.Name)
	}
	if name == "" {
		return nil, fail.With(fail.Hint(fmt.Errorf("no workload named"), "say which work shall show the difference: --on one of %s", strings.Join(known, ", ")), fail.Usage)
	}
	return nil, fail.With(fail.Hint(fmt.Errorf("no workload %q", name), "there are: %s", strings.Join(known, ", ")), fail.Usage)
}

func (a *app) changes() *cobra.Command {
	c := &cobra.Command{
		Use:     "changes [ID]",
		Short:   "List the changes that plan, apply and try take",
		Long:    "Lists every kind of change with its object, its arguments and what it does, or one of them.",
		Example: "  headroom changes\n  headroom changes disk.queue",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			shown := all.Recipes()
			if len(args) == 1 {
				r, err := all.Recipe(change.Spec{ID: args[0]})
				if err != nil {
					return err
				}
				shown = []*change.Recipe{r}
			}
			return a.print("Headroom: changes", report.Recipes(shown))
		},
	}
	a.outputFlag(c)
	return c
}

func (a *app) workloads() *cobra.Command {
	c := &cobra.Command{
		Use:     "workloads [NAME]",
		Short:   "List the workloads that try takes after --on, with their parameters",
		Long:    "Lists every workload with its parameters, their defaults and what it measures, or one of them.",
		Example: "  headroom workloads\n  headroom workloads pg.upsert",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			shown := workloads()
			if len(args) == 1 {
				w, err := workload(args[0])
				if err != nil {
					return err
				}
				shown = []*trial.Workload{w}
			}
			return a.print("Headroom: workloads", report.Workloads(shown))
		},
	}
	a.outputFlag(c)
	return c
}

func (a *app) print(title string, s ...report.Section) error {
	out, err := a.open()
	if err != nil {
		return err
	}
	defer out.Close()
	return out.Print(title, s...)
}
