package cli

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"headroom/fact"
	"headroom/fail"
	"headroom/report"
	"headroom/topic/all"
)

func (a *app) facts() *cobra.Command {
	var m machine
	var save, file string
	c := &cobra.Command{
		Use:   "facts [NAME…]",
		Short: "Show everything that was read, with unit and source; changes nothing",
		Long: `Shows the facts that checks and plans rest on: what was read, in which unit, from
where, when, or why it could not be told. NAME is a fact (pg.settings), the
first part of several (pg), or none for all.

--save writes them to a file that "check --facts" reads on any machine.
Passwords, connection strings and query texts never enter it.`,
		Example: `  headroom facts
  headroom facts block pg.settings
  headroom facts --save facts.json`,
		RunE: func(c *cobra.Command, names []string) error {
			return a.runFacts(c.Context(), &m, names, save, file)
		},
	}
	m.flags(c, true)
	a.outputFlag(c)
	c.Flags().StringVar(&save, "save", "", "write the facts to this file")
	c.Flags().StringVar(&file, "facts", "", "show the facts in this file instead of this machine's")
	return c
}

func (a *app) runFacts(ctx context.Context, m *machine, names []string, save, file string) error {
	want, err := pickFacts(names)
	if err != nil {
		return err
	}
	out, err := a.open()
	if err != nil {
		return err
	}
	defer out.Close()
	saved, err := report.OpenFile(save)
	if err != nil {
		return err
	}
	defer saved.Close()
	set, unreachable, err := a.look(ctx, m, file, want)
	if err != nil {
		return err
	}
	if save != "" {
		var b bytes.Buffer
		if err := set.Save(&b); err != nil {
			return err
		}
		if err := saved.Write(b.Bytes(), 0o600); err != nil {
			return err
		}
		fmt.Fprintf(a.err, "saved %d facts to %s; read them anywhere with: headroom check --facts %s\n", len(set.Names()), save, save)
	}
	if save == "" || len(a.outputs) > 0 {
		if err := out.Print("Headroom: facts", report.Facts(set, want)); err != nil {
			return err
		}
	}
	return unreachable
}

// pickFacts returns the facts named, by name or by first part, or all.
func pickFacts(names []string) ([]fact.Any, error) {
	known := all.Facts(all.Topics())
	if len(names) == 0 {
		return known, nil
	}
	var out []fact.Any
	for _, n := range names {
		before := len(out)
		for _, f := range known {
			if f.Key() == n || strings.HasPrefix(f.Key(), n+".") {
				out = append(out, f)
			}
		}
		if len(out) == before {
			var keys []string
			for _, f := range known {
				keys = append(keys, f.Key())
			}
			return nil, fail.With(fail.Hint(fmt.Errorf("no fact %q", n), "there are: %s", strings.Join(keys, ", ")), fail.Usage)
		}
	}
	return all.Unique(out), nil
}
