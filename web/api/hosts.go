package api

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"headroom/agent"
	"headroom/fail"
	"headroom/metric"
	"headroom/peer"
	"headroom/store"
	"headroom/topic/postgres"
)

// Mine says whether a host is this machine, as far as it is read from within.
func (p *Parts) Mine(host string) bool {
	if host != p.Host || p.Hosts == nil || p.Hosts.Own(host) {
		return host == p.Host
	}
	_, told := p.Hosts.Host(host)
	return !told
}

// Since tells how old an answer about a host is.
type Since struct {
	Host   string    `json:"host"`
	Told   time.Time `json:"told"`                  // when this was so; now for this machine
	Silent time.Time `json:"silent_since,omitzero"` // zero: the host speaks
}

// FindingsOf is what the checks found on a host, and how old that is.
func (p *Parts) FindingsOf(host string) ([]peer.Inspection, Since, error) {
	return of(p, host, peer.Findings, p.Findings, func(d *peer.Document) []peer.Inspection { return d.Inspections })
}

// GapsOf is what cannot be read on a host, and how old that is.
func (p *Parts) GapsOf(host string) ([]metric.Gap, Since, error) {
	return of(p, host, peer.Gaps, p.Gaps, func(d *peer.Document) []metric.Gap { return d.Gaps })
}

// TargetsOf is what is watched on a host, and how old that is.
func (p *Parts) TargetsOf(host string) ([]agent.Target, Since, error) {
	return of(p, host, peer.Targets, p.Targets, func(d *peer.Document) []agent.Target { return d.Targets })
}

// of asks this machine, or what another host told last. The list is never nil
// without an error.
func of[T any](p *Parts, host string, k peer.Kind, own func() []T, field func(*peer.Document) []T) ([]T, Since, error) {
	if p.Mine(host) {
		if own == nil {
			return nil, Since{}, absent(string(k))
		}
		return listed(own()), Since{Host: host, Told: p.now().UTC()}, nil
	}
	h, err := p.speaks(host)
	if err != nil {
		return nil, Since{}, err
	}
	t, ok := p.Hosts.Told(host, k)
	if !ok {
		return nil, Since{}, refuse(http.StatusNotFound, "run headroom agent of this version there: it tells within a minute of its start",
			"host %.80q sends figures and has not told its %s", host, k)
	}
	return listed(field(t.Document)), Since{host, t.Received.UTC(), h.Silent}, nil
}

// listed is a list that is written as [] where it is empty.
func listed[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

func (p *Parts) now() time.Time {
	if p.Now != nil {
		return p.Now()
	}
	return time.Now()
}

// speaks is what is known of another host; an error if that is nothing.
func (p *Parts) speaks(host string) (peer.Host, error) {
	if p.Hosts != nil {
		if h, ok := p.Hosts.Host(host); ok {
			h.Silent = h.Silent.UTC()
			return h, nil
		}
	}
	return peer.Host{}, refuse(http.StatusNotFound, "GET /api/v1/hosts lists those that speak", "nothing was heard of host %.80q", host)
}

func (a *API) asked(r *http.Request) string {
	return cmp.Or(r.URL.Query().Get("host"), a.Host)
}

func (a *API) findings(w http.ResponseWriter, r *http.Request) error {
	list, since, err := a.FindingsOf(a.asked(r))
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, struct {
		Since
		List []peer.Inspection `json:"inspections"`
	}{since, list})
	return nil
}

func (a *API) gaps(w http.ResponseWriter, r *http.Request) error {
	list, since, err := a.GapsOf(a.asked(r))
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, struct {
		Since
		List []metric.Gap `json:"gaps"`
	}{since, list})
	return nil
}

func (a *API) targets(w http.ResponseWriter, r *http.Request) error {
	list, since, err := a.TargetsOf(a.asked(r))
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, struct {
		Since
		List []agent.Target `json:"targets"`
	}{since, list})
	return nil
}

// hosts lists this machine and those that speak or spoke.
func (a *API) hosts(w http.ResponseWriter, _ *http.Request) error {
	type hostJSON struct {
		peer.Host
		Own bool `json:"own,omitempty"`
	}
	list := []hostJSON{}
	if a.Mine(a.Host) {
		list = append(list, hostJSON{peer.Host{Name: a.Host, Heard: a.Now().UTC(), Program: a.Version}, true})
	}
	if a.Parts.Hosts != nil {
		for _, h := range a.Parts.Hosts.Hosts() {
			list = append(list, hostJSON{Host: h})
		}
	}
	writeJSON(w, http.StatusOK, map[string]any{"hosts": list})
	return nil
}

// forgetHost has a silent host missed no more.
func (a *API) forgetHost(w http.ResponseWriter, r *http.Request) error {
	if a.Parts.Hosts == nil {
		return absent("what other hosts tell")
	}
	name := r.PathValue("name")
	last, err := a.lastOf(r.Context(), name)
	if err != nil {
		return err
	}
	err = a.Parts.Hosts.Forget(name, last)
	switch {
	case errors.Is(err, peer.ErrSpeaks):
		return fail.With(err, fail.Locked)
	case err != nil:
		return err
	}
	writeJSON(w, http.StatusOK, map[string]string{"forgotten": name})
	return nil
}

// lastOf is when a host was heard last or, where the book does not know it, sent
// the newest sample of those that the store has of two weeks; an error if nothing
// is known of it.
func (a *API) lastOf(ctx context.Context, host string) (last time.Time, err error) {
	if h, known := a.Parts.Hosts.Host(host); known {
		return h.Heard, nil
	}
	st, err := a.openStore()
	if err != nil {
		return last, err
	}
	now := a.Now()
	list, err := st.Series(ctx, []store.Match{{Label: "host", Op: "=", Value: host}}, now.Add(-14*24*time.Hour), now.Add(5*time.Minute), 1000)
	if err != nil {
		return last, away(err)
	}
	for _, s := range list {
		if s.Last.After(last) {
			last = s.Last
		}
	}
	if len(list) == 0 || a.Parts.Hosts.Forgotten(host, last) {
		_, err = a.speaks(host)
	}
	return last, err
}

// sessionsWait is how long an answer waits for the sessions of another host:
// longer than it takes until the host's next word.
const sessionsWait = 15 * time.Second

func (a *API) sessions(w http.ResponseWriter, r *http.Request) error {
	host, server := a.asked(r), r.URL.Query().Get("server")
	if server == "" {
		return refuse(http.StatusBadRequest, "GET /api/v1/targets lists them by name", "parameter server is missing")
	}
	ctx, stop := context.WithTimeout(r.Context(), sessionsWait)
	defer stop()
	list, at, err := a.SessionsOf(ctx, host, server, true)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, struct {
		Since
		Server string             `json:"server"`
		List   []postgres.Session `json:"sessions"`
	}{Since{Host: host, Told: at.UTC()}, server, listed(list)})
	return nil
}

// ErrAsked says that a host was asked, and that its answer has yet to come.
var ErrAsked = errors.New("it was asked, and tells with its next message, within 12 s")

// SessionsOf lists what runs now on a server of a host, and when that was so.
// Another host is asked for it; without wait, and until its answer comes, the
// error is ErrAsked.
func (p *Parts) SessionsOf(ctx context.Context, host, server string, wait bool) ([]postgres.Session, time.Time, error) {
	if p.Mine(host) {
		if p.Sessions == nil {
			return nil, time.Time{}, absent("sessions")
		}
		list, err := p.Sessions(ctx, server)
		if err != nil {
			err = &fault{error: err, status: http.StatusBadGateway}
		}
		return list, p.now(), err
	}
	h, err := p.speaks(host)
	if err != nil {
		return nil, time.Time{}, err
	}
	if !h.Silent.IsZero() {
		return nil, time.Time{}, later(10*time.Second, "is headroom agent running there?", fmt.Errorf("host %q is silent since %s", host, h.Silent.Format(time.RFC3339)))
	}
	get := func() (peer.Told, bool) { return p.Hosts.SessionsNow(host, server) }
	if wait {
		get = func() (peer.Told, bool) { return p.Hosts.WaitSessions(ctx, host, server) }
	}
	t, ok := get()
	switch {
	case !ok && h.Program == "":
		return nil, time.Time{}, refuse(http.StatusNotFound, "run headroom agent of this version there", "host %.80q sends figures and nothing else", host)
	case !ok:
		return nil, time.Time{}, later(2*time.Second, "", fmt.Errorf("sessions of %q: %w", host, ErrAsked))
	case t.Why != "":
		return nil, time.Time{}, refuse(http.StatusBadGateway, "", "%s: %s", host, t.Why)
	}
	return t.Sessions, t.Received, nil
}

// heard notes that a host speaks, and returns what it is asked for.
func (a *API) heard(host string) *agent.Look {
	if a.Parts.Hosts == nil || host == "" {
		return nil
	}
	a.Parts.Hosts.Heard(host)
	return a.Parts.Hosts.Wanted(host)
}

// looker tells that somebody looks at the host that a live stream is of.
func (a *API) looker(match []string) func() {
	if a.Parts.Hosts == nil || len(match) != 1 {
		return func() {}
	}
	ms, err := parseSelector(match[0])
	if err != nil {
		return func() {} // that was refused
	}
	return func() {
		for _, m := range ms {
			if m.Label == "host" && m.Op == "=" {
				a.Parts.Hosts.Look(m.Value, "")
			}
		}
	}
}

// ingestLive shows encoded batches to those who look and stores nothing.
func (a *API) ingestLive(w http.ResponseWriter, r *http.Request) error {
	if t := r.Header.Get("Content-Type"); t != BatchType {
		return refuse(http.StatusUnsupportedMediaType, "send Content-Type: "+BatchType, "content type %.60q is not taken here", t)
	}
	return a.receive(w, r, func(in *intake, body io.Reader) error {
		in.show = true
		err := in.frames(bufio.NewReaderSize(body, 64<<10))
		in.Look = a.heard(in.origin)
		return err
	})
}

// ingestState takes one document that a host tells of itself.
func (a *API) ingestState(w http.ResponseWriter, r *http.Request) error {
	if a.Parts.Hosts == nil {
		return absent("what other hosts tell")
	}
	if t := r.Header.Get("Content-Type"); t != "application/json" {
		return refuse(http.StatusUnsupportedMediaType, "send Content-Type: application/json", "content type %.60q is not taken here", t)
	}
	body, done, err := a.openBody(w, r)
	if err != nil {
		return err
	}
	defer done()
	text, err := io.ReadAll(io.LimitReader(body, peer.MaxBytes+1))
	if err != nil {
		return bodyError(err)
	}
	if len(text) > peer.MaxBytes {
		return tooBig(peer.MaxBytes, "after unpacking")
	}
	d, err := peer.Decode(text)
	if err != nil {
		return refuse(http.StatusBadRequest, fail.HintOf(err), "%w", err)
	}
	err = a.Parts.Hosts.Put(d, text)
	switch {
	case errors.Is(err, peer.ErrOwn):
		return fail.With(err, fail.Locked)
	case errors.Is(err, peer.ErrRoom):
		return later(time.Minute, "", err)
	case err != nil:
		return err
	}
	writeJSON(w, http.StatusOK, struct {
		Taken bool        `json:"taken"`
		Look  *agent.Look `json:"look,omitempty"`
	}{true, a.Parts.Hosts.Wanted(d.Host)})
	return nil
}
