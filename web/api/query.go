package api

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"headroom/store"
)

// Functions and aggregates that a query takes.
var (
	funcs = []string{"avg", "min", "max", "last", "sum", "count", "rate", "increase", "p50", "p90", "p95", "p99"}
	aggs  = []string{"sum", "avg", "min", "max", "count"}
)

// readQuery reads all of a query but its conditions.
func (a *API) readQuery(q url.Values) (store.Query, error) {
	out := store.Query{Func: "avg"}
	var err error
	if out.From, out.To, err = a.span(q); err != nil {
		return out, err
	}
	if v := q.Get("step"); v != "" {
		d, ok := parseSpan(v)
		if !ok {
			return out, refuse(http.StatusBadRequest, "write it as 30s, 5m, 1h, 1d", "read step %.40q: not a length of time", v)
		}
		out.Step = d
	}
	if out.Points, err = number(q, "points", 0, 11_000); err != nil {
		return out, err
	}
	if out.Top, err = number(q, "top", 0, 1000); err != nil {
		return out, err
	}
	if v := q.Get("func"); v != "" {
		if !slices.Contains(funcs, v) {
			return out, refuse(http.StatusBadRequest, "there are: "+strings.Join(funcs, ", "), "unknown func %.40q", v)
		}
		out.Func = v
	}
	if v := q.Get("agg"); v != "" {
		if !slices.Contains(aggs, v) {
			return out, refuse(http.StatusBadRequest, "there are: "+strings.Join(aggs, ", "), "unknown agg %.40q", v)
		}
		out.Agg = v
	}
	return out, readGroups(q, &out)
}

// readGroups reads by: labels with commas; given but empty it means one group
// of all.
func readGroups(q url.Values, out *store.Query) error {
	if !q.Has("by") {
		if out.Agg != "" {
			out.By = []string{""}
		}
		return nil
	}
	out.By = strings.Split(q.Get("by"), ",")
	for _, l := range out.By {
		if !wordIs(l, false) && (l != "" || len(out.By) > 1) {
			return refuse(http.StatusBadRequest, "write it as by=host,device; by= makes one group of all", "read by: %.60q is not a label's name", l)
		}
	}
	if out.Agg == "" {
		out.Agg = "sum"
	}
	return nil
}

func number(q url.Values, name string, least, most int) (int, error) {
	v := q.Get(name)
	if v == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < least || n > most {
		return 0, refuse(http.StatusBadRequest, "", "read %s %.40q: want a number from %d to %d", name, v, least, most)
	}
	return n, nil
}

func (a *API) query(w http.ResponseWriter, r *http.Request) error {
	v := r.URL.Query()
	matches, err := selectors(v, 1)
	if err != nil {
		return err
	}
	q, err := a.readQuery(v)
	if err != nil {
		return err
	}
	if q.Top > 0 && len(matches) > 1 {
		return refuse(http.StatusBadRequest, "ask for each match by itself", "top with several match parameters")
	}
	st, err := a.openStore()
	if err != nil {
		return err
	}
	var all *store.Frame
	for _, m := range matches {
		q.Match = m
		f, err := st.Query(r.Context(), q)
		if err != nil {
			return err
		}
		if all, err = join(all, f); err != nil {
			return err
		}
		q.Step = f.Step // the others get the same buckets
	}
	if wantsCSV(r) {
		return writeCSV(w, all)
	}
	return writeFrame(w, all)
}

// join puts the lines of two answers on one time axis.
func join(a, b *store.Frame) (*store.Frame, error) {
	if a == nil {
		return b, nil
	}
	if !slices.Equal(a.At, b.At) {
		return nil, refuse(http.StatusBadRequest, "give step, or ask for each match by itself", "the matches are kept in resolutions that do not fit on one axis")
	}
	a.Lines = append(a.Lines, b.Lines...)
	if b.Resolution != a.Resolution {
		a.Resolution += "," + b.Resolution
	}
	for _, w := range b.Warnings {
		if !slices.Contains(a.Warnings, w) {
			a.Warnings = append(a.Warnings, w)
		}
	}
	return a, nil
}

type seriesJSON struct {
	Name   string            `json:"name"`
	Labels map[string]string `json:"labels"`
	Key    string            `json:"key"`
	ID     string            `json:"id"` // a number of 63 bits is no JSON number
	First  time.Time         `json:"first"`
	Last   time.Time         `json:"last"`
}

func (a *API) series(w http.ResponseWriter, r *http.Request) error {
	v := r.URL.Query()
	matches, err := selectors(v, 1)
	if err != nil {
		return err
	}
	from, to, err := a.span(v)
	if err != nil {
		return err
	}
	limit, err := number(v, "limit", 1, 10_000)
	if err != nil {
		return err
	}
	if limit == 0 {
		limit = 1000
	}
	st, err := a.openStore()
	if err != nil {
		return err
	}
	out := []seriesJSON{}
	seen := map[int64]bool{}
	for _, m := range matches {
		found, err := st.Series(r.Context(), m, from, to, limit+1)
		if err != nil {
			return err
		}
		for _, s := range found {
			if seen[s.Series.ID()] {
				continue
			}
			seen[s.Series.ID()] = true
			j := seriesJSON{Name: s.Series.Name, Labels: map[string]string{}, Key: s.Series.Key(),
				ID: strconv.FormatInt(s.Series.ID(), 10), First: s.First.UTC(), Last: s.Last.UTC()}
			for _, l := range s.Series.Labels {
				j.Labels[l.Name] = l.Value
			}
			out = append(out, j)
		}
	}
	more := len(out) > limit
	writeJSON(w, http.StatusOK, map[string]any{"series": out[:min(limit, len(out))], "more": more})
	return nil
}

func (a *API) labels(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("name")
	if !wordIs(name, false) {
		return refuse(http.StatusBadRequest, "", "%.60q is not a label's name", name)
	}
	matches, err := selectors(r.URL.Query(), 0)
	if err != nil {
		return err
	}
	if len(matches) == 0 {
		matches = [][]store.Match{nil}
	}
	st, err := a.openStore()
	if err != nil {
		return err
	}
	values := []string{}
	for _, m := range matches {
		found, err := st.LabelValues(r.Context(), name, m)
		if err != nil {
			return err
		}
		values = append(values, found...)
	}
	slices.Sort(values)
	writeJSON(w, http.StatusOK, map[string]any{"label": name, "values": slices.Compact(values)})
	return nil
}
