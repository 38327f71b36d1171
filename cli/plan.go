package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"headroom/change"
	"headroom/fail"
	"headroom/host"
	"headroom/report"
	"headroom/topic/all"
)

func (a *app) plan() *cobra.Command {
	var m machine
	var f ruleFlags
	c := &cobra.Command{
		Use:   "plan CHANGE…",
		Short: "Show what a change would do, what it restarts, its risk and the way back; changes nothing",
		Long: `Shows the difference between now and after, what is reloaded or restarted, the
risk, and how it is undone, and saves the plan under a short name that apply
takes (or with -o json=FILE under yours). The machine is not changed.

A change is written ID [OBJECT] name=value…, several as one quoted word each.
"headroom changes" lists them.

Exit status: 0 planned, or nothing to do; 1 cannot be planned; 2 the change, a
name or a value is wrong.`,
		Example: `  headroom plan postgres.setting max_wal_size=10GB
  headroom plan disk.queue vda read_ahead_kb=4096
  headroom plan 'memory.sysctl vm.swappiness=10' 'memory.thp enabled=madvise'
  headroom plan postgres.setting work_mem=32MB -o json=plan.json
  headroom plan firewall.stateless --dns 10.0.0.2 --new-rules new.rules
  headroom plan firewall.rules --rules new.nft`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: completeChanges,
		RunE:              func(c *cobra.Command, words []string) error { return a.runPlan(c.Context(), &m, f, words) },
	}
	m.flags(c, true)
	f.flags(c)
	a.outputFlag(c)
	return c
}

// specs reads the words of a command line: one change in several words, or
// several changes of one quoted word each.
func specs(words []string) ([]change.Spec, error) {
	many := len(words) > 1
	for _, w := range words {
		many = many && strings.ContainsAny(w, " \t")
	}
	if !many {
		s, err := change.ParseSpec(words...)
		return []change.Spec{s}, err
	}
	var out []change.Spec
	for _, w := range words {
		s, err := change.ParseSpec(w)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

func (a *app) runPlan(ctx context.Context, m *machine, f ruleFlags, words []string) error {
	asked, err := specs(words)
	if err != nil {
		return err
	}
	if err := f.into(asked); err != nil {
		return err
	}
	out, err := a.open()
	if err != nil {
		return err
	}
	defer out.Close()
	h := m.open(a)
	defer h.Close()
	p, err := all.Prepare(ctx, h, m.factOptions(), asked)
	if err != nil {
		return err
	}
	if err := f.write(p); err != nil {
		return err
	}
	saved := ""
	if !p.Nothing() {
		if saved, err = savePlan(p); err != nil {
			fmt.Fprintf(a.err, "note: the plan was not saved: %v; write it with -o json=FILE\n", err)
		}
	}
	if err := out.Print("Headroom: plan", report.Plan(p, saved)); err != nil {
		return err
	}
	a.tellPending()
	return nil
}

// savePlan keeps the plan among our own files and returns its short name.
func savePlan(p *change.Plan) (string, error) {
	dirs, err := host.OwnDirs()
	if err != nil {
		return "", err
	}
	var b bytes.Buffer
	if err := p.Save(&b); err != nil {
		return "", err
	}
	dir := filepath.Join(dirs.State, "plans")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("make folder for plans: %w", err)
	}
	name := p.Hash[:8]
	return name, host.WriteDurable(filepath.Join(dir, name+".json"), b.Bytes(), 0o600)
}

var planName = regexp.MustCompile(`^[0-9a-f]{8}$`)

// loadPlan reads a plan by the short name that plan printed, or from a file.
func loadPlan(arg string) (*change.Plan, error) {
	path := arg
	if planName.MatchString(arg) {
		dirs, err := host.OwnDirs()
		if err != nil {
			return nil, err
		}
		path = filepath.Join(dirs.State, "plans", arg+".json")
	}
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fail.Hint(fmt.Errorf("no plan %q: %w", arg, fail.ErrAbsent),
			"make one first: headroom plan CHANGE prints the name to give here; a file made by -o json=FILE works, too")
	}
	if err != nil {
		return nil, fmt.Errorf("read plan: %w", err)
	}
	defer f.Close()
	return change.LoadPlan(f)
}

func completeChanges(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var out []string
	for _, r := range all.Recipes() {
		out = append(out, r.ID)
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}
