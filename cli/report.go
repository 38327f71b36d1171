package cli

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"headroom/change"
	"headroom/check"
	"headroom/fail"
	"headroom/host"
	"headroom/report"
	"headroom/topic/all"
)

func (a *app) report() *cobra.Command {
	var withJournal bool
	c := &cobra.Command{
		Use:   "report FILE…",
		Short: "Make one page of saved facts, plans and results of trials and labs",
		Long: `Puts saved files together, in the order given: facts (their findings are shown),
plans and results of trials and labs, each as its own verb would print it. With -o html=FILE
it is one file that needs no network; --journal adds what was changed here.`,
		Example: "  headroom report facts.json trial.json -o html=report.html",
		RunE: func(_ *cobra.Command, files []string) error {
			if len(files) == 0 && !withJournal {
				return fail.With(fail.Hint(errors.New("nothing to report: no file named"), "write: headroom report facts.json trial.json -o html=report.html"), fail.Usage)
			}
			var parts []report.Section
			for _, f := range files {
				s, err := sectionOf(f)
				if err != nil {
					return err
				}
				parts = append(parts, s)
			}
			if withJournal {
				s, err := journalSection()
				if err != nil {
					return err
				}
				parts = append(parts, s)
			}
			return a.print("Headroom: report", parts...)
		},
	}
	a.outputFlag(c)
	c.Flags().BoolVar(&withJournal, "journal", false, "add the journal of this machine")
	return c
}

func journalSection() (report.Section, error) {
	dirs, err := host.OwnDirs()
	if err != nil {
		return report.Section{}, err
	}
	entries, err := change.OpenJournal(dirs).List()
	return report.Journal(entries), err
}

// sectionOf finds out what a saved file holds by trying each kind; the file
// says itself which it is, so at most one fits.
func sectionOf(path string) (report.Section, error) {
	if _, err := os.Stat(path); err != nil {
		return report.Section{}, fmt.Errorf("read %s: %w", path, err)
	}
	r, terr := loadTrial(path)
	if terr == nil {
		return report.Trial(r), nil
	}
	l, lerr := loadLab(path)
	if lerr == nil {
		return report.Lab(l), nil
	}
	p, perr := loadPlan(path)
	if perr == nil {
		return report.Plan(p, ""), nil
	}
	set, _, ferr := loadFacts(path)
	if ferr == nil {
		checks, _ := all.Checks(all.Topics())
		return report.Findings(check.Run(set, checks), set), nil
	}
	return report.Section{}, fail.With(fail.Hint(fmt.Errorf("read %s: neither saved facts nor a plan nor a result of a trial or lab (%w; %w; %w; %w)", path, ferr, perr, terr, lerr),
		"such files are made by: facts --save FILE, plan -o json=FILE, try -o json=FILE, lab --save FILE"), fail.Usage)
}
