package report

import (
	"fmt"
	"strings"

	"headroom/change"
	"headroom/check"
	"headroom/topic"
	"headroom/trial"
)

// generated heads every page that is made from a declaration.
const generated = "<!-- Made from the program's own declarations by `make docs`; edits are lost. -->\n\n"

// CheckPage is the Markdown page of one check, from its declaration.
func CheckPage(c *check.Check) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s# %s\n\n%s\n", generated, md(c.Name), prose(c.Doc.Title))
	for _, part := range []struct{ head, text string }{
		{"Why", c.Doc.Why}, {"Evidence", c.Doc.Evidence}, {"Fix", c.Doc.Fix}, {"Risk", c.Doc.Risk}, {"Undo", c.Doc.Undo},
	} {
		if part.text != "" {
			fmt.Fprintf(&b, "\n## %s\n\n%s\n", part.head, prose(part.text))
		}
	}
	if len(c.Needs) > 0 {
		b.WriteString("\n## Facts it needs\n\n")
		for _, n := range c.Needs {
			fmt.Fprintf(&b, "- %s: %s\n", code(n.Key()), prose(n.About()))
		}
	}
	if len(c.Quiet) > 0 {
		b.WriteString("\n## Stays quiet\n\nIt only follows from these, and is not shown if one of them fired:\n\n")
		for _, q := range c.Quiet {
			fmt.Fprintf(&b, "- %s\n", code(q))
		}
	}
	if len(c.Doc.Sources) > 0 {
		b.WriteString("\n## Sources\n\n")
		for _, s := range c.Doc.Sources {
			fmt.Fprintf(&b, "- %s\n", prose(s))
		}
	}
	return b.String()
}

// RecipePage is the Markdown page of one kind of change.
func RecipePage(r *change.Recipe) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s# %s\n\n%s\n\n```\n%s\n```\n", generated, md(r.ID), prose(r.Doc), recipeUsage(r))
	if len(r.Args) > 0 {
		b.WriteString("\n## Arguments\n\n| name | what it is | example |\n| --- | --- | --- |\n")
		for _, a := range r.Args {
			eg := ""
			if a.Eg != "" {
				eg = code(a.Eg)
			}
			fmt.Fprintf(&b, "| %s | %s | %s |\n", md(orElse(a.Name, "any")), prose(a.Doc), eg)
		}
	}
	if eg := recipeExample(r); eg != "" {
		fmt.Fprintf(&b, "\n## Example\n\n```\n%s\n```\n", eg)
	}
	return b.String()
}

// WorkloadPage is the Markdown page of one workload.
func WorkloadPage(w *trial.Workload) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s# %s\n\n%s\n\nRuns on %s.\n", generated, md(w.Name), prose(w.Doc), usesWords[w.Uses])
	if len(w.Params) > 0 {
		b.WriteString("\n## Parameters\n\nGive them as `-p name=value`.\n\n| name | default | what it is |\n| --- | --- | --- |\n")
		for _, p := range w.Params {
			fmt.Fprintf(&b, "| %s | %s | %s |\n", md(p.Name), md(orElse(p.Default, "none")), prose(p.Doc))
		}
	}
	b.WriteString("\n## Measures\n\nThe first decides the verdict.\n\n| name | what it is | unit | better |\n| --- | --- | --- | --- |\n")
	for _, m := range w.Measures {
		better := "lower"
		if m.Higher {
			better = "higher"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", md(m.Name), md(noun(m)), md(string(m.Unit)), better)
	}
	return b.String()
}

// Pages are all pages made from the topics' declarations, by path below docs.
func Pages(topics []topic.Topic) map[string]string {
	out := map[string]string{}
	var checks, changes, workloads strings.Builder
	checks.WriteString(generated + "# Checks\n\nWhat `headroom check` looks for. Each page says why, on what evidence, the fix, its risk and the way back.\n")
	changes.WriteString(generated + "# Changes\n\nWhat `headroom plan`, `apply` and `try` take. All of them can be taken back.\n")
	workloads.WriteString(generated + "# Workloads\n\nWhat `headroom try` takes after `--on`.\n")
	for _, t := range topics {
		section := fmt.Sprintf("\n## %s: %s\n\n", md(t.Name), prose(t.Title))
		heads := map[*strings.Builder]bool{}
		line := func(b *strings.Builder, dir, name, doc, page string) {
			if !heads[b] {
				b.WriteString(section)
				heads[b] = true
			}
			fmt.Fprintf(b, "- [%s](%s.md): %s\n", md(name), name, prose(doc))
			out[dir+"/"+name+".md"] = page
		}
		for _, c := range t.Checks {
			line(&checks, "checks", c.Name, c.Doc.Title, CheckPage(c))
		}
		for _, r := range t.Recipes {
			line(&changes, "changes", r.ID, firstSentence(r.Doc), RecipePage(r))
		}
		for _, w := range t.Workloads {
			line(&workloads, "workloads", w.Name, firstSentence(w.Doc), WorkloadPage(w))
		}
	}
	out["checks/README.md"], out["changes/README.md"], out["workloads/README.md"] = checks.String(), changes.String(), workloads.String()
	out["facts.md"] = factsPage(topics)
	return out
}

func firstSentence(s string) string {
	first, _, more := strings.Cut(s, ". ")
	if more {
		return first + "."
	}
	return first
}

// prose writes our own text, which may hold `code`, so that Markdown takes
// nothing else in it for markup.
func prose(s string) string {
	parts := strings.Split(s, "`")
	for i, p := range parts {
		switch {
		case i%2 == 1 && i < len(parts)-1:
			parts[i] = code(p)
		case i%2 == 1:
			parts[i] = "\\`" + proseWords(p)
		default:
			parts[i] = proseWords(p)
		}
	}
	return strings.Join(parts, "")
}

// proseWords keeps paragraphs apart.
func proseWords(s string) string {
	paragraphs := strings.Split(s, "\n\n")
	for i, p := range paragraphs {
		lead, trail := "", ""
		if strings.HasPrefix(p, " ") {
			lead = " "
		}
		if strings.HasSuffix(p, " ") {
			trail = " "
		}
		words := strings.Join(strings.Fields(p), " ")
		if words == "" {
			trail = ""
		}
		paragraphs[i] = lead + md(words) + trail
	}
	return strings.Join(paragraphs, "\n\n")
}
