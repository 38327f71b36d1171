package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"headroom/change"
	"headroom/fail"
)

// ruleFlags are the flags of plan that are about rules of the packet filter.
type ruleFlags struct {
	rules, dns, newRules string
}

// The changes that they belong to.
const (
	filterChange = "firewall.stateless"
	ownRules     = "firewall.rules" // takes --rules alone
)

func (f *ruleFlags) flags(c *cobra.Command) {
	c.Flags().StringVar(&f.rules, "rules", "", "the same as rules=FILE[,FILE…]: of firewall.rules what to load, of firewall.stateless what to convert instead of the rules in force")
	c.Flags().StringVar(&f.dns, "dns", "", "firewall.stateless: the same as dns=ADDRESS[,ADDRESS…]: the only name servers that this machine asks")
	c.Flags().StringVar(&f.newRules, "new-rules", "", "firewall.stateless: write the converted rules here, too, e.g. for lab firewall --rules OLD,NEW")
}

// into puts the flags into the change that was asked for. Paths become
// absolute, for a plan is applied from anywhere.
func (f *ruleFlags) into(asked []change.Spec) error {
	given, found := f.rules != "" || f.dns != "" || f.newRules != "", false
	for _, s := range asked {
		if s.ID != filterChange && s.ID != ownRules {
			continue
		}
		found = found || s.ID == filterChange || f.dns == "" && f.newRules == ""
		if f.rules != "" {
			s.Args["rules"] = f.rules
		}
		if f.dns != "" && s.ID == filterChange {
			s.Args["dns"] = f.dns
		}
		if list := s.Args["rules"]; list != "" {
			paths := strings.Split(list, ",")
			for i, p := range paths {
				abs, err := filepath.Abs(p)
				if err != nil {
					return fmt.Errorf("find %s: %w", p, err)
				}
				paths[i] = abs
			}
			s.Args["rules"] = strings.Join(paths, ",")
		}
	}
	if given && !found {
		return fail.With(fmt.Errorf("--rules belongs to %s and %s, --dns and --new-rules to the latter", ownRules, filterChange), fail.Usage)
	}
	return nil
}

// write writes the planned rules into the file that was asked for; where
// several programs load them, into one for each, named FILE.PROGRAM.
func (f *ruleFlags) write(p *change.Plan) error {
	if f.newRules == "" {
		return nil
	}
	texts := map[string]string{}
	for _, c := range p.Changes {
		for _, s := range c.Steps {
			if r, ok := s.Step.(change.Rules); ok && r.Content != "" {
				texts[r.Tool] += r.Content
			}
		}
	}
	for tool, text := range texts {
		path := f.newRules
		if len(texts) > 1 {
			path += "." + tool
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return fmt.Errorf("write the converted rules: %w", err)
		}
	}
	return nil
}
