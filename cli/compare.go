package cli

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"headroom/fail"
	"headroom/lab"
	"headroom/report"
	"headroom/trial"
)

func (a *app) compare() *cobra.Command {
	c := &cobra.Command{
		Use:   "compare A B",
		Short: "Compare two saved results of trials or labs, measure by measure",
		Long: `Compares two results that "try -o json=FILE" or "lab --save FILE" saved, B against
A, arm by arm of the same name. The two did not take turns: whatever moved on the machine between
them counts as difference, and it says so. Prefer two arms of one trial.

Exit status: 0 compared; 3 B is worse beyond doubt; 2 they cannot be compared.`,
		Example: "  headroom compare monday.json tuesday.json",
		Args:    cobra.ExactArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			cmp, err := compareLabs(args)
			if err == nil && cmp == nil {
				cmp, err = compareTrials(args)
			}
			if err != nil {
				return err
			}
			if err := a.print("Headroom: comparison", report.Comparison(cmp)); err != nil {
				return err
			}
			if cmp.Regressed {
				return exit(fail.Findings, "regression")
			}
			return nil
		},
	}
	a.outputFlag(c)
	return c
}

func compareTrials(paths []string) (*trial.Comparison, error) {
	var rs [2]*trial.Result
	for i, path := range paths {
		var err error
		if rs[i], err = loadTrial(path); err != nil {
			return nil, err
		}
	}
	return trial.Compare(rs[0], rs[1])
}

// compareLabs answers nothing where the first file is no lab's result.
func compareLabs(paths []string) (*trial.Comparison, error) {
	x, err := loadLab(paths[0])
	if err != nil {
		return nil, nil // it is a trial's, or will be refused as one
	}
	y, err := loadLab(paths[1])
	if err != nil {
		return nil, err
	}
	return lab.Compare(x, y)
}

func loadTrial(path string) (*trial.Result, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fail.Hint(fmt.Errorf("read trial: %w", err), "save one with: headroom try … -o json=%s", path)
	}
	defer f.Close()
	r, err := trial.Load(f)
	if err != nil {
		return nil, fail.With(fmt.Errorf("%s: %w", path, err), fail.Usage)
	}
	return r, nil
}
