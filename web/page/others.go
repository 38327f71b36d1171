package page

import (
	"errors"
	"slices"
	"strings"
	"time"

	"headroom/fail"
	"headroom/metric"
	"headroom/peer"
	"headroom/web/api"
)

// Own says whether the host is this machine: only here can plans be made.
func (v *view) Own() bool { return v.p.Parts.Mine(v.Host) }

// silentSince is since when a host says nothing; zero for one that speaks, and
// for this machine.
func (v *view) silentSince(name string) time.Time {
	if v.p.Parts.Hosts == nil || v.p.Parts.Mine(name) {
		return time.Time{}
	}
	var heard time.Time
	if i := slices.IndexFunc(v.places.hosts, func(l place) bool { return l.Name == name }); i >= 0 {
		heard = v.places.hosts[i].Last
	}
	if h, ok := v.p.Parts.Hosts.Host(name); ok && h.Heard.After(heard) {
		heard = h.Heard
	}
	if heard.IsZero() {
		return heard
	}
	return v.p.Parts.Hosts.SilentSince(heard)
}

// Silent says since when the host is silent; "" if it speaks.
func (v *view) Silent() string { return v.SilentOf(v.Host) }

// SilentOf is Silent for a host by name.
func (v *view) SilentOf(name string) string { return v.since(v.silentSince(name)) }

// since is a time and how long ago it is; "" for the zero time.
func (v *view) since(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05 UTC") + " (" + span(v.p.now().Sub(t)) + " ago)"
}

// addTold adds hosts and servers of which hosts told, and no sample came yet.
func (p *pages) addTold(out *places) {
	names := []string{p.Parts.Host}
	if p.Parts.Hosts != nil {
		for _, h := range p.Parts.Hosts.Hosts() {
			names = append(names, h.Name)
			if !slices.ContainsFunc(out.hosts, func(l place) bool { return l.Name == h.Name }) {
				out.hosts = append(out.hosts, place{Name: h.Name, Host: h.Name, Last: h.Heard})
			}
		}
	}
	for _, host := range names {
		targets, _, err := p.Parts.TargetsOf(host)
		if err != nil {
			continue // it tells no targets: samples name its servers
		}
		for _, t := range targets {
			known := slices.ContainsFunc(out.servers, func(l place) bool { return l.Name == t.Name && l.Host == host })
			if t.Kind == metric.Postgres && !known {
				out.servers = append(out.servers, place{Name: t.Name, Host: host})
			}
		}
	}
}

// said is why an answer about a host is missing, with the way out.
func said(err error) string {
	text := err.Error()
	if hint := fail.HintOf(err); hint != "" {
		text += "; " + hint
	}
	return text
}

// GapsWhy is why it is not known what cannot be read; "" if it is known.
func (v *view) GapsWhy() string {
	if _, _, err := v.p.Parts.GapsOf(v.Host); err != nil && !v.Own() {
		return said(err)
	}
	return ""
}

// WhyNone is why there are no findings of another host; "" if there may be.
func (d findingsData) WhyNone() string {
	if _, _, err := d.p.Parts.FindingsOf(d.Host); err != nil && !d.Own() {
		return said(err)
	}
	return ""
}

// Told is when another host told its findings, and how long ago.
func (d findingsData) Told() string {
	_, since, err := d.p.Parts.FindingsOf(d.Host)
	if err != nil || d.Own() {
		return ""
	}
	return d.since(since.Told)
}

// Found counts what the checks found on a host, in words.
func (d overviewData) Found(l place) string {
	count, err := d.counted(l.Name)
	if err != "" {
		return err
	}
	var parts []string
	for _, w := range []struct {
		of        string
		one, many string
	}{{"danger", "danger", "dangers"}, {"warning", "warning", "warnings"}, {"advice", "advice", "advice"}, {"note", "note", "notes"}} {
		if n := count[w.of]; n > 0 {
			parts = append(parts, plural(n, w.one, w.many))
		}
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ", ")
}

// counted is how many findings a host has, by severity, or why that is not
// known.
func (d overviewData) counted(host string) (count map[string]int, why string) {
	if !d.p.Parts.Mine(host) {
		h, ok := d.p.Parts.Hosts.Host(host)
		if !ok || h.Found == nil {
			return nil, "not told"
		}
		return h.Found, ""
	}
	list, _, err := d.p.Parts.FindingsOf(host)
	if err != nil || len(list) == 0 {
		return nil, "not checked yet"
	}
	return peer.Count(list), ""
}

// silentHosts are the other hosts that say nothing.
func (d overviewData) silentHosts() (out []string) {
	for _, l := range d.Hosts() {
		if s := d.SilentOf(l.Name); s != "" {
			out = append(out, l.Name+" since "+s)
		}
	}
	return out
}

// Sessions lists what runs now, the idle ones only counted, or says why that is
// not known.
func (d postgresData) Sessions() (out sessionList) {
	all, at, err := d.p.Parts.SessionsOf(d.r.Context(), d.Host, d.Server, false)
	if errors.Is(err, api.ErrAsked) {
		return sessionList{Wait: d.Host + " was asked; its list comes with its next message, within 12 s."}
	}
	if err != nil {
		return sessionList{Why: said(err)}
	}
	if !d.Own() {
		out.Told = span(d.p.now().Sub(at)) + " ago"
	}
	for _, s := range all {
		if s.State == "idle" || s.State == "" && s.Backend != "autovacuum worker" {
			out.Idle++
			continue
		}
		out.List = append(out.List, s)
	}
	return out
}
