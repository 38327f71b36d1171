package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"headroom/change"
	"headroom/fail"
	"headroom/host"
	"headroom/report"
)

func (a *app) apply() *cobra.Command {
	var m machine
	var accept []string
	var within time.Duration
	var port uint16
	c := &cobra.Command{
		Use:   "apply PLAN",
		Short: "Do exactly what a plan shows, verified, with the way back on disk first",
		Long: `Applies a saved plan: the short name that "headroom plan" printed, or a file made
with -o json=FILE. Before each step the way back is on disk; after each the
machine is read again and compared. If a step fails, or you press Ctrl-C, all is
taken back.

If the machine moved since the plan was made, nothing is done (exit 4, with the
difference). A restart of the server needs --accept restart. With
--confirm-within, a separate process takes the change back unless "headroom
confirm" comes in time, even if this terminal is gone. A change that may cut you
off (firewall rules) is always applied so, within 2 minutes if you say nothing,
and confirming it wants a new connection to have come in from outside: to the
port of your SSH session or server, or to --confirm-port.

Exit status: 0 applied, or nothing to do; 4 the machine moved; 5 another change
is running; 6 failed and taken back; 7 failed and NOT taken back.`,
		Example: `  headroom apply 1f2e3d4c
  headroom apply plan.json --accept restart
  headroom apply 1f2e3d4c --confirm-within 2m`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if c.Flags().Changed("confirm-within") && within <= 0 {
				return fail.With(fail.Hint(fmt.Errorf("read --confirm-within %s: it must be above 0", within), "e.g. --confirm-within 2m"), fail.Usage)
			}
			if err := knownRisks(accept, change.AcceptRestart); err != nil {
				return err
			}
			return a.runApply(c.Context(), &m, args[0], accept, within, port)
		},
	}
	m.flags(c, false)
	c.Flags().StringSliceVar(&accept, "accept", nil, "take a risk by name: restart")
	c.Flags().DurationVar(&within, "confirm-within", 0, "take the change back by itself unless confirmed within this time, e.g. 2m")
	c.Flags().Uint16Var(&port, "confirm-port", 0, "TCP port that a new connection must come in to before a firewall change is confirmed (default: that of SSH)")
	return c
}

// knownRisks refuses to accept what is no risk: a slip of the pen would look
// like consent.
func knownRisks(accept []string, known ...string) error {
	for _, risk := range accept {
		if !slices.Contains(known, risk) {
			return fail.With(fail.Hint(fmt.Errorf("read --accept: no risk %q", risk), "there are: %s", strings.Join(known, ", ")), fail.Usage)
		}
	}
	return nil
}

// changer opens what the changing verbs share, and settles what an earlier,
// interrupted one left.
func (a *app) changer(ctx context.Context, m *machine, accept []string) (*host.Local, change.Options, error) {
	dirs, err := host.OwnDirs()
	if err != nil {
		return nil, change.Options{}, err
	}
	h := m.open(a)
	o := change.Options{Journal: change.OpenJournal(dirs), Accept: accept, Say: a.progress, Guard: m.guard()}
	found, err := change.Recover(ctx, h, o)
	for _, f := range found {
		fmt.Fprintln(a.err, "found: "+f.Text)
	}
	if err != nil {
		h.Close()
		return nil, o, err
	}
	return h, o, nil
}

// guard is the command of the guarding process. The connection string goes
// through its environment, not its arguments: it may hold a password.
func (m *machine) guard() *host.Cmd {
	self, err := os.Executable()
	if err != nil {
		return nil
	}
	g := &host.Cmd{Argv: []string{self, "guard"}, Env: os.Environ()}
	if m.db != "" {
		g.Env = append(g.Env, "HEADROOM_DB="+m.db)
	}
	// It works in another folder.
	if d := os.Getenv("HEADROOM_STATE"); d != "" {
		if abs, err := filepath.Abs(d); err == nil {
			g.Env = append(g.Env, "HEADROOM_STATE="+abs)
		}
	}
	if m.root != "" {
		root := m.root
		if abs, err := filepath.Abs(root); err == nil {
			root = abs
		}
		g.Argv = append(g.Argv, "--root", root)
	}
	return g
}

func (a *app) progress(line string) { fmt.Fprintln(a.err, "  "+line) }

func (a *app) runApply(ctx context.Context, m *machine, arg string, accept []string, within time.Duration, port uint16) error {
	p, err := loadPlan(arg)
	if err != nil {
		return err
	}
	m.follow(p)
	h, o, err := a.changer(ctx, m, accept)
	if err != nil {
		return err
	}
	defer h.Close()
	o.ConfirmWithin, o.ConfirmPort = within, port
	res, err := change.Apply(ctx, h, p, o)
	if err != nil {
		return a.moved(err)
	}
	switch res.Phase {
	case "":
		fmt.Fprintln(a.out, "nothing to do: all is already so")
	case change.Awaiting:
		a.awaiting(res)
	default:
		fmt.Fprintf(a.out, "applied and verified as change %s\ntake it back any time with: headroom revert %s\n", res.ID, res.ID)
	}
	a.notes(res)
	return nil
}

// follow takes the server's address from a plan if the user named none.
func (m *machine) follow(p *change.Plan) {
	if p != nil && p.Server != nil && m.db == "" && !anyEnv("PGHOST", "PGPORT", "PGSERVICE", "HEADROOM_DB") {
		m.db = p.Server.Conninfo()
	}
}

// moved shows the table of what moved, if that is what the error is.
func (a *app) moved(err error) error {
	var mv *change.Moved
	if !errors.As(err, &mv) {
		return err
	}
	out, oerr := report.Open(nil, a.err, os.Getenv)
	if oerr != nil {
		return err
	}
	defer out.Close()
	if perr := out.Print("", report.Moved(mv)); perr != nil {
		return errors.Join(err, perr)
	}
	return err
}

func (a *app) notes(res change.Result) {
	for _, n := range res.Notes {
		fmt.Fprintln(a.out, n)
	}
}

func (a *app) revert() *cobra.Command {
	var m machine
	var accept []string
	c := &cobra.Command{
		Use:   "revert CHANGE",
		Short: "Take a change back, any time later",
		Long: `Brings every object that a change altered back to what it was before, in reverse
order, and verifies each. If somebody else edited one of them since, nothing is
done and the three values are shown (before, set by the change, now).

Exit status: 0 taken back; 4 edited by somebody else; 5 another change is
running; 7 could not be taken back.`,
		Example: "  headroom revert 20261120-7f3a\n  headroom revert 20261120-7f3a --accept foreign-edit",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := knownRisks(accept, change.AcceptRestart, change.AcceptForeign, change.AcceptLost); err != nil {
				return err
			}
			return a.runRevert(c.Context(), &m, args[0], accept)
		},
	}
	m.flags(c, false)
	c.Flags().StringSliceVar(&accept, "accept", nil, "take a risk by name: restart, foreign-edit, lost (what it was done to is gone for good)")
	return c
}

func (a *app) runRevert(ctx context.Context, m *machine, id string, accept []string) error {
	dirs, err := host.OwnDirs()
	if err != nil {
		return err
	}
	e, err := change.OpenJournal(dirs).Get(id)
	if err != nil {
		return err
	}
	m.follow(e.Plan)
	h, o, err := a.changer(ctx, m, accept)
	if err != nil {
		return err
	}
	defer h.Close()
	res, err := change.Revert(ctx, h, id, o)
	if err != nil {
		return a.moved(err)
	}
	if len(res.Notes) == 0 {
		fmt.Fprintf(a.out, "reverted: all is as before change %s\n", id)
	}
	a.notes(res)
	return nil
}
