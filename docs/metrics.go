package main

import (
	"fmt"
	"strings"
	"time"

	"headroom/metric"
	"headroom/topic"
)

// metricsPage lists every metric that collectors read, by topic and collector.
func metricsPage(topics []topic.Topic) string {
	var b strings.Builder
	b.WriteString(`# Metrics

What ` + "`headroom up`" + ` reads, by topic. Made from the declarations by ` + "`make docs`" + `.

Names are in Prometheus' style, units are base units. Every series has the label ` + "`host`" + `, those of a server also ` + "`server`" + `. Counters are kept as the source counts them: take their rate. What cannot be read is listed as a gap, with the reason and the way out, in the place of its chart.

Collectors run every 10 seconds unless it says otherwise; those marked *live* run each second while somebody looks at a page, and what they read then is shown and not stored.
`)
	for _, t := range topics {
		if len(t.Collectors) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n## %s\n", t.Title)
		for _, c := range t.Collectors {
			collectorPart(&b, c)
		}
	}
	return b.String()
}

func collectorPart(b *strings.Builder, c *metric.Collector) {
	fmt.Fprintf(b, "\n### %s\n\n%s%s", c.Name, strings.ToUpper(c.Doc[:1]), c.Doc[1:])
	if c.Of != metric.Host {
		fmt.Fprintf(b, "; for each %s server", c.Of)
	}
	if c.Every > 10*time.Second {
		fmt.Fprintf(b, "; every %s", every(c.Every))
	}
	if c.Fast {
		b.WriteString("; *live*")
	}
	b.WriteString(".\n\n| metric | kind | labels | what | source |\n|---|---|---|---|---|\n")
	for _, d := range c.Defs {
		kind := string(d.Kind)
		if d.Unit == metric.Info {
			kind = "info"
		}
		labels := ""
		if len(d.Labels) > 0 {
			labels = "`" + strings.Join(d.Labels, "` `") + "`"
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s | %s |\n", d.Name, kind, labels, cell(strings.TrimSuffix(d.Help, ".")), cell(d.Source))
	}
}

// cell keeps a text from breaking the table.
func cell(s string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ", "*", `\*`).Replace(s)
}

// every writes an interval in words.
func every(d time.Duration) string {
	switch {
	case d == time.Minute:
		return "minute"
	case d%time.Minute == 0:
		return fmt.Sprintf("%d minutes", d/time.Minute)
	}
	return fmt.Sprintf("%d seconds", d/time.Second)
}
