package store

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"headroom/metric"
)

// groups joins series to lines.
type groups struct {
	p  *plan
	by map[string]*group
}

type group struct {
	key    string
	labels []metric.Label
	name   string
	values []float64
	counts []int32 // series that have a value in the bucket
}

func newGroups(p *plan) *groups { return &groups{p: p, by: map[string]*group{}} }

func (g *groups) add(s *metric.Series, values []float64) {
	if !slices.ContainsFunc(values, func(v float64) bool { return !math.IsNaN(v) }) {
		return
	}
	key, labels := s.Key(), s.Labels
	if g.p.q.By != nil {
		key, labels = groupOf(s, g.p.q.By)
	}
	x := g.by[key]
	if x == nil {
		x = &group{key: key, labels: labels, name: s.Name, values: values}
		if g.p.q.By != nil {
			x.counts = make([]int32, len(values))
			for i, v := range values {
				if !math.IsNaN(v) {
					x.counts[i] = 1
				}
			}
		}
		g.by[key] = x
		return
	}
	if x.name != s.Name {
		x.name = ""
	}
	for i, v := range values {
		x.take(i, v, g.p.q.Agg)
	}
}

func (x *group) take(i int, v float64, agg string) {
	if math.IsNaN(v) {
		return
	}
	x.counts[i]++
	switch old := x.values[i]; {
	case math.IsNaN(old):
		x.values[i] = v
	case agg == "min":
		x.values[i] = min(old, v)
	case agg == "max":
		x.values[i] = max(old, v)
	default:
		x.values[i] = old + v
	}
}

func groupOf(s *metric.Series, by []string) (string, []metric.Label) {
	var labels []metric.Label
	var key strings.Builder
	for _, l := range by {
		v := s.Get(l)
		key.WriteString(v)
		key.WriteByte(0)
		if l != "" && v != "" {
			labels = append(labels, metric.Label{Name: l, Value: v})
		}
	}
	return key.String(), labels
}

// lines finishes the groups: sorted by key, or the Top ones by mean.
func (g *groups) lines() []Line {
	all := make([]*group, 0, len(g.by))
	for _, x := range g.by {
		for i, n := range x.counts {
			switch {
			case n > 0 && g.p.q.Agg == "avg":
				x.values[i] /= float64(n)
			case n > 0 && g.p.q.Agg == "count":
				x.values[i] = float64(n)
			}
		}
		all = append(all, x)
	}
	slices.SortFunc(all, func(a, b *group) int { return strings.Compare(a.key, b.key) })
	if g.p.q.Top > 0 {
		means := make(map[*group]float64, len(all))
		for _, x := range all {
			means[x] = mean(x.values)
		}
		slices.SortStableFunc(all, func(a, b *group) int { return cmp.Compare(means[b], means[a]) })
		all = all[:min(len(all), g.p.q.Top)]
	}
	out := make([]Line, len(all))
	for i, x := range all {
		out[i] = Line{Labels: x.labels, Name: x.name, Values: x.values}
	}
	return out
}

func mean(vs []float64) float64 {
	sum, n := 0.0, 0
	for _, v := range vs {
		if !math.IsNaN(v) {
			sum += v
			n++
		}
	}
	return sum / float64(max(n, 1))
}
