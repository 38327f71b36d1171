package all

import (
	"strings"
	"testing"

	"headroom/metric"
)

// A metric has one definition, which belongs to one collector; collectors are
// named after their topic; what they declare is in order.
func TestCollectorsAreDeclaredInOrder(t *testing.T) {
	names, metrics := map[string]bool{}, map[string]string{}
	for _, tp := range Topics() {
		for _, c := range tp.Collectors {
			if err := c.Check(); err != nil {
				t.Error(err)
			}
			if !strings.HasPrefix(c.Name, tp.Name+".") || names[c.Name] {
				t.Errorf("collector %s of topic %s: another topic's name, or twice", c.Name, tp.Name)
			}
			names[c.Name] = true
			for _, d := range c.Defs {
				if by, twice := metrics[d.Name]; twice {
					t.Errorf("metric %s is declared by %s and by %s", d.Name, by, c.Name)
				}
				metrics[d.Name] = c.Name
				if !strings.HasSuffix(d.Help, ".") || strings.ToUpper(d.Help[:1]) != d.Help[:1] {
					t.Errorf("metric %s: the help is no sentence: %q", d.Name, d.Help)
				}
				for _, l := range d.Labels {
					if l == "host" || l == "server" {
						t.Errorf("metric %s: label %s is added by who runs the collector", d.Name, l)
					}
				}
			}
			if c.Of == metric.Host && c.Deadline > 0 && c.Every > 0 && c.Deadline > c.Every {
				t.Errorf("collector %s: its deadline is longer than its interval", c.Name)
			}
		}
	}
	if len(metrics) < 150 {
		t.Errorf("only %d metrics", len(metrics))
	}
}
