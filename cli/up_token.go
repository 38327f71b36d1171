package cli

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"headroom/fail"
	"headroom/host"
	"headroom/watch"
	"headroom/web/auth"
)

// upToken manages the tokens of programs: agents, Grafana, scripts.
func (a *app) upToken() *cobra.Command {
	c := &cobra.Command{
		Use:     "token",
		Short:   "Make, list and revoke the tokens of agents and other programs",
		Example: "  headroom up token create web1 --scope write\n  headroom up token list\n  headroom up token revoke web1",
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	var scopes []string
	var series int
	create := &cobra.Command{
		Use:   "create NAME --scope write",
		Short: "Make a token and print it; it is shown this once",
		Long: `Makes a token and prints it, alone, on standard output. What is kept is its
SHA-256. Scopes: write brings samples (what an agent needs), read looks at all
that is shown, change may apply plans where --allow-changes is on.

A write token may bring 100,000 series in an hour that were never seen before,
or as many as --series says, so that a label that never repeats cannot use up
what there is for all. Series that are known do not count.`,
		Example: "  headroom up token create web1 --scope write > token\n  headroom up token create prometheus --scope write --series 300000 > token",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if c.Flags().Changed("series") && series < 1 {
				return badBudget(fmt.Sprint(series))
			}
			return a.createToken(args[0], scopes, series)
		},
	}
	create.Flags().StringSliceVar(&scopes, "scope", nil, "what it may do: write, read, change")
	create.Flags().IntVar(&series, "series", 0, "series never seen before that it may bring in an hour (default 100000)")
	list := &cobra.Command{
		Use: "list", Short: "List the tokens, without their secrets", Example: "  headroom up token list", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return a.listTokens() },
	}
	revoke := &cobra.Command{
		Use: "revoke NAME", Short: "End a token; it is refused from the next request on", Example: "  headroom up token revoke web1", Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			t, err := tokens()
			if err != nil {
				return err
			}
			return fail.Hint(t.Revoke(args[0]), "headroom up token list shows those there are")
		},
	}
	c.AddCommand(create, list, tokenSeries(), revoke)
	return c
}

func tokenSeries() *cobra.Command {
	return &cobra.Command{
		Use:     "series NAME N",
		Short:   "Let a token bring N new series in an hour, from the next request on",
		Example: "  headroom up token series prometheus 300000",
		Args:    cobra.ExactArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			n, err := strconv.Atoi(args[1])
			if err != nil || n < 1 {
				return badBudget(args[1])
			}
			t, err := tokens()
			if err != nil {
				return err
			}
			return fail.Hint(t.SetSeries(args[0], n), "headroom up token list shows those there are")
		},
	}
}

func badBudget(text string) error {
	return fail.With(fmt.Errorf("read the budget %.40q: want new series in an hour, 1 to %d", text, auth.MaxSeries), fail.Usage)
}

func tokens() (*auth.Tokens, error) {
	dirs, err := host.OwnDirs()
	if err != nil {
		return nil, err
	}
	return watch.Tokens(dirs)
}

func (a *app) createToken(name string, scopes []string, series int) error {
	if len(scopes) == 0 {
		return fail.With(fail.Hint(fmt.Errorf("make token %s: no scope given", name), "for an agent: --scope write; to read: --scope read"), fail.Usage)
	}
	var want []auth.Scope
	for _, s := range scopes {
		want = append(want, auth.Scope(s))
	}
	t, err := tokens()
	if err != nil {
		return err
	}
	secret, err := t.Make(auth.Token{Name: name, Scopes: want, Series: series})
	if err != nil {
		return err
	}
	fmt.Fprintln(a.out, secret)
	return nil
}

func (a *app) listTokens() error {
	dirs, err := host.OwnDirs()
	if err != nil {
		return err
	}
	t, err := watch.Tokens(dirs)
	if err != nil {
		return err
	}
	all, err := t.List()
	if err != nil {
		return err
	}
	if len(all) == 0 {
		fmt.Fprintln(a.out, "no tokens; make one with: headroom up token create NAME --scope write")
		return nil
	}
	used, err := watch.Usage(dirs).Get()
	for _, one := range all {
		var scopes []string
		for _, s := range one.Scopes {
			scopes = append(scopes, string(s))
		}
		fmt.Fprintf(a.out, "%-20s %-20s made %s%s\n", one.Name, strings.Join(scopes, ","), one.Made.Local().Format("2006-01-02 15:04"), budget(one, used, err))
	}
	return nil
}

// budget is what a token that writes may bring, and how much of it is left.
func budget(t auth.Token, used map[string]auth.Used, unknown error) string {
	if !slices.Contains(t.Scopes, auth.Write) {
		return ""
	}
	left := "left: could not tell, because " + fmt.Sprint(unknown)
	if unknown == nil {
		left = fmt.Sprintf("%d left", used[t.ID].Left(time.Now(), t.Budget()))
	}
	return fmt.Sprintf("  %d new series an hour, %s", t.Budget(), left)
}
