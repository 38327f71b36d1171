package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"headroom/check"
	"headroom/fact"
	"headroom/fail"
	"headroom/report"
	"headroom/topic/all"
)

func (a *app) check() *cobra.Command {
	var m machine
	var file, failOn string
	var strict bool
	c := &cobra.Command{
		Use:   "check [TOPIC…]",
		Short: "Say what could be better, worst and most worthwhile first; changes nothing",
		Long: `Looks at the machine and its PostgreSQL server and prints findings: what is so,
how bad in figures, on what evidence, how to change it and which trial would
prove it. What could not be told is listed with the reason. Nothing is changed:
one connection, read-only transactions, time limits on every statement; the
disk is measured by at most 2 s of low-priority reads (--no-probe: not at all).

The user needs pg_monitor, no more: GRANT pg_monitor TO …

Exit status: 0 looked; 3 with --fail-on, if a finding is at least that severe;
8 with --strict, if something could not be told; 1 if a server that was named
cannot be reached.`,
		Example: `  headroom check
  headroom check postgres --db 'host=/var/run/postgresql user=postgres'
  headroom check --fail-on warning --strict -o json
  headroom check --facts facts.json`,
		ValidArgsFunction: completeTopics,
		RunE: func(c *cobra.Command, topics []string) error {
			return a.runCheck(c.Context(), &m, topics, file, failOn, strict)
		},
	}
	m.flags(c, true)
	a.outputFlag(c)
	c.Flags().StringVar(&file, "facts", "", "check the facts in this file (from `headroom facts --save`) instead of this machine")
	c.Flags().StringVar(&failOn, "fail-on", "", "exit 3 if a finding is at least: "+strings.Join(check.Severities(), ", "))
	c.Flags().BoolVar(&strict, "strict", false, "exit 8 if something could not be told")
	return c
}

func (a *app) outputFlag(c *cobra.Command) {
	c.Flags().StringArrayVarP(&a.outputs, "output", "o", nil, report.FlagHelp)
}

func (a *app) open() (*report.Output, error) { return report.Open(a.outputs, a.terminal, os.Getenv) }

func (a *app) runCheck(ctx context.Context, m *machine, names []string, file, failOn string, strict bool) error {
	if failOn == "" {
		failOn = a.config.FailOn
	}
	limit, ok := check.ParseSeverity(failOn)
	if failOn != "" && !ok {
		return fail.With(fail.Hint(fmt.Errorf("read --fail-on: no severity %q", failOn), "there are: %s", strings.Join(check.Severities(), ", ")), fail.Usage)
	}
	topics, err := pickTopics(names)
	if err != nil {
		return err
	}
	out, err := a.open()
	if err != nil {
		return err
	}
	defer out.Close()
	checks, needs := all.Checks(topics)
	set, unreachable, err := a.look(ctx, m, file, needs)
	if err != nil {
		return err
	}
	o := check.Run(set, checks)
	if err := out.Print("Headroom: findings", report.Findings(o, set)); err != nil {
		return err
	}
	a.tellPending()
	worst, any := o.Worst()
	switch {
	case unreachable != nil:
		return unreachable
	case failOn != "" && any && worst >= limit:
		return exit(fail.Findings, "findings")
	case strict && len(o.NotChecked) > 0:
		return exit(fail.Unchecked, "partly not checked")
	}
	return nil
}

// look gathers facts from the machine or loads them. unreachable is set if the
// user named a server and none of its facts could be told because of that.
func (a *app) look(ctx context.Context, m *machine, file string, needs []fact.Any) (set *fact.Set, unreachable, err error) {
	if file != "" {
		if m.db != "" || m.root != "" {
			return nil, nil, fail.With(fail.Hint(errors.New("read facts: --facts names a file, and --db or --root a machine"), "leave one of them out"), fail.Usage)
		}
		set, skipped, err := loadFacts(file)
		if len(skipped) > 0 {
			fmt.Fprintf(a.err, "note: %s holds facts that this Headroom does not know: %s\n", file, strings.Join(skipped, ", "))
		}
		return set, nil, err
	}
	h := m.open(a)
	defer h.Close()
	wantsServer := slices.ContainsFunc(needs, func(f fact.Any) bool { return strings.HasPrefix(f.Key(), "pg.") })
	if m.named && wantsServer {
		unreachable = h.Ping(ctx)
	}
	if fail.Code(unreachable) == fail.Usage { // the server was named in a way that cannot be read
		return nil, nil, unreachable
	}
	set, err = m.gather(ctx, h, needs)
	if h.Pooled() {
		fmt.Fprintln(a.err, "note: a connection pooler such as PgBouncer answers in the server's place; to plan changes, name the server's own port or socket with --db")
	}
	return set, unreachable, err
}

func completeTopics(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	ts, _ := pickTopics(nil)
	return topicNames(ts), cobra.ShellCompDirectiveNoFileComp
}
