package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"headroom/change"
	"headroom/host"
)

// awaiting tells how to keep a change that takes itself back.
func (a *app) awaiting(res change.Result) {
	fmt.Fprintf(a.out, "applied and verified as change %s\n", res.ID)
	if res.Port != 0 {
		fmt.Fprintf(a.out, "now leave this connection open, log in once more from another machine (a new connection to TCP port %d), and confirm there\n", res.Port)
	}
	fmt.Fprintf(a.out, "taken back at %s unless you run: headroom confirm %s\n", res.ConfirmBy.Local().Format(time.TimeOnly), res.ID)
}

func (a *app) confirm() *cobra.Command {
	var m machine
	var unseen bool
	c := &cobra.Command{
		Use:   "confirm CHANGE",
		Short: "Keep a change that was applied with --confirm-within",
		Long: `Keeps a change that would otherwise take itself back. Run it from a new
connection: that you can is the proof that the machine still answers.

A change that may cut you off (firewall rules) is only confirmed once a new TCP
connection from outside was seen to the port where you come in: one that was
open before proves nothing, since rules may let it go on and let no other in.
At the console, --confirm-unseen confirms without. Only now are the rules saved
to be loaded at boot.

Exit status: 0 confirmed; 1 too late, or no new connection was seen; 4 a file
that is written now was edited since; 6 a step failed and all was taken back.`,
		Example: "  headroom confirm 20261120-7f3a\n  headroom confirm 20261120-7f3a --confirm-unseen",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.runConfirm(c.Context(), &m, args[0], unseen)
		},
	}
	m.flags(c, false)
	c.Flags().BoolVar(&unseen, "confirm-unseen", false, "confirm a firewall change though no new connection from outside was seen")
	return c
}

func (a *app) runConfirm(ctx context.Context, m *machine, id string, unseen bool) error {
	dirs, err := host.OwnDirs()
	if err != nil {
		return err
	}
	j := change.OpenJournal(dirs)
	e, err := j.Get(id)
	if err != nil {
		return err
	}
	m.follow(e.Plan)
	h := m.open(a)
	defer h.Close()
	res, err := change.Confirm(ctx, h, id, change.Options{Journal: j, ConfirmUnseen: unseen, Say: a.progress})
	if err != nil {
		return a.moved(err)
	}
	a.notes(res)
	fmt.Fprintf(a.out, "confirmed: change %s stays; take it back any time with: headroom revert %s\n", res.ID, res.ID)
	return nil
}

func (a *app) guard() *cobra.Command {
	var m machine
	var parent string
	c := &cobra.Command{
		Use: "guard CHANGE", Hidden: true, Args: cobra.ExactArgs(1),
		Short: "The process that takes an unconfirmed change back; started by apply --confirm-within",
		RunE: func(c *cobra.Command, args []string) error {
			dirs, err := host.OwnDirs()
			if err != nil {
				return err
			}
			h := m.open(a)
			defer h.Close()
			return change.Guard(c.Context(), h, args[0], change.Options{Journal: change.OpenJournal(dirs), Parent: parent})
		},
	}
	m.flags(c, false)
	c.Flags().StringVar(&parent, "parent", "", "the process that applies, as PID:START")
	return c
}
