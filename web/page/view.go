package page

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"headroom/store"
	"headroom/web/api"
)

// view is what a request asks for: a host, a server of it, a span of time.
type view struct {
	p    *pages
	r    *http.Request
	Host string
	// Server is the server's label, the first of the host's if none was named;
	// "" if it has none.
	Server   string
	from, to time.Time
	places   places
}

// place is a host or server that samples came of.
type place struct {
	Name  string
	Host  string
	Major string    // of PostgreSQL
	Last  time.Time // when a sample came last
}

// places are all hosts and servers that the store knows from the last two days.
type places struct {
	hosts, servers []place
	why            string // the store's answer where there was none
}

func (p *pages) view(r *http.Request) (*view, error) {
	q := r.URL.Query()
	v := &view{p: p, r: r, Host: cmp.Or(q.Get("host"), p.Parts.Host), Server: q.Get("server")}
	now := p.now()
	var err, err2 error
	v.from, err = when(cmp.Or(q.Get("from"), "-1h"), now)
	v.to, err2 = when(cmp.Or(q.Get("to"), "now"), now)
	if err := errors.Join(err, err2); err != nil {
		return nil, err
	}
	if !v.from.Before(v.to) {
		return nil, fmt.Errorf("the range ends before it begins")
	}
	v.places = p.places.get(r.Context(), "", now, func(ctx context.Context) (places, time.Duration) { return p.findPlaces(ctx), 5 * time.Second })
	if list := v.Servers(); v.Server == "" && len(list) > 0 {
		v.Server = list[0].Name
	}
	return v, nil
}

func (p *pages) now() time.Time {
	if p.Parts.Now != nil {
		return p.Parts.Now()
	}
	return time.Now()
}

// when reads a time of a page's address: "now", "-2h", RFC 3339.
func when(text string, now time.Time) (time.Time, error) {
	if text == "now" {
		return now, nil
	}
	if back, ok := strings.CutPrefix(text, "-"); ok && len(back) > 1 {
		unit := map[byte]time.Duration{'s': time.Second, 'm': time.Minute, 'h': time.Hour, 'd': 24 * time.Hour, 'w': 7 * 24 * time.Hour}[back[len(back)-1]]
		n, err := strconv.ParseFloat(back[:len(back)-1], 64)
		if err == nil && unit > 0 && n > 0 && n*unit.Seconds() < 100*365*86400 {
			return now.Add(-time.Duration(n * float64(unit))), nil
		}
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return t, fmt.Errorf("read time %.40q: write it as -2h, now, or 2026-11-21T14:00:00Z", text)
	}
	return t, nil
}

// Hosts are the hosts that the store knows, this machine first.
func (v *view) Hosts() []place { return v.places.hosts }

// Servers are the PostgreSQL servers of the host.
func (v *view) Servers() (out []place) {
	for _, s := range v.places.servers {
		if s.Host == v.Host {
			out = append(out, s)
		}
	}
	return out
}

// Away is why the store cannot be asked; "" if it can.
func (v *view) Away() string { return v.places.why }

// findPlaces lists hosts and servers, those by name, this machine first.
func (p *pages) findPlaces(ctx context.Context) (out places) {
	now := p.now()
	st, err := p.store()
	if err == nil {
		out.hosts, err = found(ctx, st, "host_boot_time_seconds", "host", now)
	}
	if err == nil {
		out.servers, err = found(ctx, st, "postgres_version_info", "server", now)
	}
	if err != nil {
		out.why = err.Error()
	}
	own := func(l place) bool { return l.Name == p.Parts.Host }
	if !slices.ContainsFunc(out.hosts, own) {
		out.hosts = append(out.hosts, place{Name: p.Parts.Host, Host: p.Parts.Host})
	}
	p.addTold(&out)
	out.hosts = slices.DeleteFunc(out.hosts, func(l place) bool { return p.Parts.Hosts != nil && p.Parts.Hosts.Forgotten(l.Name, l.Last) })
	slices.SortStableFunc(out.hosts, func(a, b place) int {
		return cmp.Or(cmp.Compare(btoi(own(b)), btoi(own(a))), strings.Compare(a.Name, b.Name))
	})
	slices.SortFunc(out.servers, func(a, b place) int { return strings.Compare(a.Name, b.Name) })
	return out
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// found lists the values of a label that a metric had within two days, the one
// that spoke last first where one name has several series.
func found(ctx context.Context, st api.Store, name, label string, now time.Time) ([]place, error) {
	list, err := st.Series(ctx, []store.Match{{Label: "__name__", Op: "=", Value: name}}, now.Add(-48*time.Hour), now.Add(time.Minute), 5000)
	if err != nil {
		return nil, err
	}
	var out []place
	for _, s := range list {
		l := place{Name: s.Series.Get(label), Host: s.Series.Get("host"), Major: s.Series.Get("major"), Last: s.Last}
		i := slices.IndexFunc(out, func(o place) bool { return o.Name == l.Name && o.Host == l.Host })
		switch {
		case i < 0:
			out = append(out, l)
		case out[i].Last.Before(l.Last):
			out[i] = l
		}
	}
	return out, nil
}
