// Package cli is the command line: one file per verb, each thin: parse, call,
// print. Results go to standard output, progress and errors to standard error.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"headroom/fail"
)

// version is set by the linker; "unknown" in a build without git.
var version = "unknown"

// app is what every verb shares: the streams and the global flags.
type app struct {
	in       io.Reader
	out, err io.Writer
	terminal io.Writer // standard output itself, for reports, which look at its kind and at errors
	outputs  []string  // -o
	config   config
}

// Main runs the program with its arguments (without the program's name) and
// returns the exit status. An interrupt (INT, TERM, HUP) ends the verb's
// context; the verb cleans up and the status is fail.Interrupted.
func Main(args []string, in io.Reader, out, errOut io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	told := &stdout{to: out}
	a := &app{in: in, out: told, err: errOut, terminal: out}
	root := a.root()
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(told)
	root.SetErr(errOut)
	err := told.verdict(root.ExecuteContext(ctx))
	if err == nil {
		return fail.OK
	}
	code := fail.Code(err)
	if ctx.Err() != nil && code == fail.Failure {
		code = fail.Interrupted
	}
	var q quiet
	if !errors.As(err, &q) {
		a.complain(err)
	}
	return code
}

// Verbs is the tree of commands with their help, for what is made of it. It is
// not to be run: Main does that.
func Verbs() *cobra.Command { return (&app{}).root() }

// Examples lists every example of the verbs' help, one command line each.
func Examples() []string {
	var out []string
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		for _, line := range strings.Split(c.Example, "\n") {
			if line = strings.TrimSpace(line); strings.HasPrefix(line, "headroom ") {
				out = append(out, line)
			}
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk((&app{}).root())
	return out
}

// quiet is an error that was already told on standard output: it only carries
// an exit status.
type quiet struct{ error }

func (q quiet) Unwrap() error { return q.error }

func exit(code int, why string) error { return fail.With(quiet{errors.New(why)}, code) }

func (a *app) complain(err error) {
	msg := strings.TrimSpace(err.Error())
	fmt.Fprintln(a.err, "error: "+msg)
	if h := fail.HintOf(err); h != "" {
		fmt.Fprintln(a.err, "hint:  "+h)
	}
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "headroom",
		Short: "Shows how much faster this server could be, proves it, and changes it so that it can be undone",
		Long: `Headroom looks at a Linux machine and its PostgreSQL server, says what holds
it back, proves each fix side by side on this very machine, applies it so that
it can be undone, and puts it back when asked.

The loop:
  headroom check                                       what could be better
  headroom plan postgres.setting max_wal_size=10GB     what would change; changes nothing
  headroom try 'postgres.setting max_wal_size=10GB' --on pg.upsert
                                                       with and without, side by side
  headroom apply PLAN                                  do it, verified, with a way back
  headroom revert CHANGE                               take it back, any time

See it all at work on a private server that is thrown away: headroom demo`,
		SilenceUsage:               true,
		SilenceErrors:              true,
		SuggestionsMinimumDistance: 2,
		Version:                    version,
		Args:                       knownVerb,
		RunE:                       func(c *cobra.Command, _ []string) error { return c.Help() },
		PersistentPreRunE: func(*cobra.Command, []string) error {
			var err error
			a.config, err = readConfig()
			return err
		},
	}
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return fail.With(fail.Hint(err, "see: %s --help", c.CommandPath()), fail.Usage)
	})
	root.SetVersionTemplate("headroom {{.Version}}\n")
	root.AddCommand(a.demo(), a.check(), a.facts(), a.plan(), a.apply(), a.confirm(), a.revert(), a.journal(),
		a.guard(), a.try(), a.compare(), a.report(), a.changes(), a.workloads())
	root.AddCommand(a.lab(), a.flood())
	root.AddCommand(a.load())
	root.AddCommand(a.ingest())
	root.AddCommand(a.sql())
	root.AddCommand(a.up(), a.agent())
	for _, c := range root.Commands() {
		c.Args = usageArgs(c.Args)
	}
	return root
}

// knownVerb is for words that are no verb.
func knownVerb(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := "see: headroom --help"
	if near := c.SuggestionsFor(args[0]); len(near) > 0 {
		hint = "did you mean: headroom " + strings.Join(near, ", headroom ")
	}
	return fail.With(fail.Hint(fmt.Errorf("unknown command %q", args[0]), "%s", hint), fail.Usage)
}

// usageArgs makes a wrong number of arguments a usage error with a way out.
func usageArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if check == nil {
			return nil
		}
		if err := check(c, args); err != nil {
			return fail.With(fail.Hint(err, "write: %s", c.UseLine()), fail.Usage)
		}
		return nil
	}
}
