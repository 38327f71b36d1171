package page

import (
	"context"
	"errors"
	"math"
	"sync"
	"time"

	"headroom/metric"
	"headroom/store"
	"headroom/web/api"
)

// store returns the store, or why there is none now.
func (p *pages) store() (api.Store, error) {
	if p.Parts.Store == nil {
		return nil, errors.New("there is no store")
	}
	return p.Parts.Store()
}

// eq are conditions: name, then pairs of label and value.
func eq(name string, pairs ...string) []store.Match {
	m := []store.Match{{Label: "__name__", Op: "=", Value: name}}
	for i := 0; i+1 < len(pairs); i += 2 {
		m = append(m, store.Match{Label: pairs[i], Op: "=", Value: pairs[i+1]})
	}
	return m
}

// ask queries the store.
func (v *view) ask(q store.Query) ([]store.Line, []int64, error) {
	st, err := v.p.store()
	if err != nil {
		return nil, nil, err
	}
	f, err := st.Query(v.r.Context(), q)
	if err != nil {
		return nil, nil, err
	}
	return f.Lines, f.At, nil
}

// number is one value with its labels.
type number struct {
	labels []metric.Label
	value  float64
}

func (n number) get(label string) string { return get(n.labels, label) }

func get(labels []metric.Label, label string) string {
	for _, l := range labels {
		if l.Name == label {
			return l.Value
		}
	}
	return ""
}

// latest is the newest value of each series of the last 20 minutes.
func (v *view) latest(m []store.Match) ([]number, error) {
	now := v.p.now()
	return v.numbers(store.Query{Match: m, From: now.Add(-20 * time.Minute), To: now.Add(time.Second), Step: time.Minute, Func: "last"})
}

// rates is the mean rise per second of each group within the view's range, of
// the time in which any of them has samples.
func (v *view) rates(m []store.Match, by ...string) ([]number, error) {
	lines, _, err := v.ask(store.Query{Match: m, From: v.from, To: v.to, Points: 60, Func: "rate", By: by, Agg: "sum"})
	return meanRates(lines), err
}

// meanRates is the mean of each line. Buckets in which no line has a value are
// those between two samples, or without any; where others have one, a line
// without did nothing.
func meanRates(lines []store.Line) (out []number) {
	covered := map[int]bool{}
	for _, l := range lines {
		sum := 0.0
		for i, x := range l.Values {
			if !math.IsNaN(x) {
				sum += x
				covered[i] = true
			}
		}
		out = append(out, number{l.Labels, sum})
	}
	for i := range out {
		out[i].value /= math.Max(1, float64(len(covered)))
	}
	return out
}

// numbers is the last value of each line.
func (v *view) numbers(q store.Query) ([]number, error) {
	lines, _, err := v.ask(q)
	if err != nil {
		return nil, err
	}
	var out []number
	for _, l := range lines {
		for i := len(l.Values) - 1; i >= 0; i-- {
			if !math.IsNaN(l.Values[i]) {
				out = append(out, number{l.Labels, l.Values[i]})
				break
			}
		}
	}
	return out, nil
}

// kept keeps answers for a while, so that many readers cost as one.
type kept[T any] struct {
	mu sync.Mutex
	m  map[string]*keptOne[T]
}

type keptOne[T any] struct {
	mu    sync.Mutex
	until time.Time
	since time.Time
	value T
}

// keptMost bounds how many answers are kept: names come from addresses.
const keptMost = 1000

// patience is how long reading for all may take, whoever has gone meanwhile.
const patience = 20 * time.Second

// get returns the answer of a name, read anew if it is too old; read says how
// long its answer is good for. What is read is for all: its context does not
// end when the one that asked first goes away.
func (k *kept[T]) get(ctx context.Context, name string, now time.Time, read func(context.Context) (T, time.Duration)) T {
	k.mu.Lock()
	if k.m == nil || len(k.m) > keptMost {
		k.m = map[string]*keptOne[T]{}
	}
	one := k.m[name]
	if one == nil {
		one = &keptOne[T]{}
		k.m[name] = one
	}
	k.mu.Unlock()
	one.mu.Lock()
	defer one.mu.Unlock()
	if !now.Before(one.until) || now.Before(one.since) {
		ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), patience)
		defer stop()
		value, life := read(ctx)
		one.value, one.since, one.until = value, now, now.Add(life)
	}
	return one.value
}
