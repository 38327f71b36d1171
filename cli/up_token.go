package cli

import (
	"fmt"
	"strings"

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
	create := &cobra.Command{
		Use:   "create NAME --scope write",
		Short: "Make a token and print it; it is shown this once",
		Long: `Makes a token and prints it, alone, on standard output. What is kept is its
SHA-256. Scopes: write brings samples (what an agent needs), read looks at all
that is shown, change may apply plans where --allow-changes is on.`,
		Example: "  headroom up token create web1 --scope write > token",
		Args:    cobra.ExactArgs(1),
		RunE:    func(_ *cobra.Command, args []string) error { return a.createToken(args[0], scopes) },
	}
	create.Flags().StringSliceVar(&scopes, "scope", nil, "what it may do: write, read, change")
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
	c.AddCommand(create, list, revoke)
	return c
}

func tokens() (*auth.Tokens, error) {
	dirs, err := host.OwnDirs()
	if err != nil {
		return nil, err
	}
	return watch.Tokens(dirs)
}

func (a *app) createToken(name string, scopes []string) error {
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
	secret, err := t.Create(name, want...)
	if err != nil {
		return err
	}
	fmt.Fprintln(a.out, secret)
	return nil
}

func (a *app) listTokens() error {
	t, err := tokens()
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
	for _, one := range all {
		var scopes []string
		for _, s := range one.Scopes {
			scopes = append(scopes, string(s))
		}
		fmt.Fprintf(a.out, "%-20s %-20s made %s\n", one.Name, strings.Join(scopes, ","), one.Made.Local().Format("2006-01-02 15:04"))
	}
	return nil
}
