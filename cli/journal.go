package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"headroom/change"
	"headroom/host"
	"headroom/report"
)

func (a *app) journal() *cobra.Command {
	c := &cobra.Command{
		Use:   "journal [CHANGE]",
		Short: "List what was changed, when, and in what state it is; or show one change",
		Long: `Lists every change that was begun on this machine, the newest last, or shows one
with its plan, its way back and each thing that happened to it. Changes nothing.`,
		Example: "  headroom journal\n  headroom journal 20261120-7f3a -o json",
		Args:    cobra.MaximumNArgs(1),
		RunE:    func(_ *cobra.Command, args []string) error { return a.runJournal(args) },
	}
	a.outputFlag(c)
	return c
}

func (a *app) runJournal(args []string) error {
	dirs, err := host.OwnDirs()
	if err != nil {
		return err
	}
	out, err := a.open()
	if err != nil {
		return err
	}
	defer out.Close()
	j := change.OpenJournal(dirs)
	if len(args) == 1 {
		e, err := j.Get(args[0])
		if err != nil {
			return err
		}
		return out.Print("Headroom: change "+e.ID, report.Entry(e))
	}
	entries, err := j.List()
	if err != nil {
		return err
	}
	if err := out.Print("Headroom: journal", report.Journal(entries)); err != nil {
		return err
	}
	a.tellPending()
	return nil
}

// tellPending says on standard error what an interrupted change left, for the
// verbs that only look.
func (a *app) tellPending() {
	dirs, err := host.OwnDirs()
	if err != nil {
		return
	}
	found, err := change.Pending(change.OpenJournal(dirs))
	if err != nil {
		fmt.Fprintln(a.err, "note: "+err.Error())
	}
	for _, f := range found {
		fmt.Fprintln(a.err, "note: "+f.Text)
	}
}
