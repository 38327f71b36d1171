package watch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"headroom/change"
	"headroom/lab"
	"headroom/metric"
	"headroom/store"
	"headroom/trial"
	"headroom/unit"
)

const marksEvery = 15 * time.Second

// starts are the metrics whose value is the time at which something started:
// when it moves, it was started again.
var starts = map[string]string{
	"host_boot_time_seconds":      "boot",
	"postgres_start_time_seconds": "restart",
}

// marker finds what is drawn on the time axis of every chart: changes from the
// journal, trials and labs, boots and restarts of servers, the clock when it is
// set. Each mark has a key of its own, so that finding it twice keeps it once.
type marker struct {
	host    string
	journal *change.Journal
	results string // folder
	keep    func(context.Context, []store.Mark) error
	say     func(string)

	mu      sync.Mutex
	started map[string]float64 // series key → its value
	fresh   []store.Mark       // found, not kept yet
	done    map[string]bool    // keys that are kept
	seen    map[string]bool    // result files that were read
	unread  error              // why the journal or the results could not be listed last
}

func newMarker(host string, journal *change.Journal, results string, say func(string)) *marker {
	return &marker{host: host, journal: journal, results: results, say: say,
		started: map[string]float64{}, done: map[string]bool{}, seen: map[string]bool{}}
}

// notice looks for starts in a batch.
func (m *marker) notice(b *metric.Batch) {
	for i := range b.Rows {
		r := &b.Rows[i]
		kind, ok := starts[r.Series.Name]
		if !ok || len(r.Points) == 0 {
			continue
		}
		m.start(kind, r.Series, r.Points[len(r.Points)-1].Value)
	}
}

func (m *marker) start(kind string, s *metric.Series, at float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	// A boot time is computed from two clocks and wobbles by some milliseconds.
	if was, ok := m.started[s.Key()]; ok && at-was < 2 && was-at < 2 {
		return
	}
	was, known := m.started[s.Key()]
	m.started[s.Key()] = at
	what := "the machine was started"
	switch {
	case kind == "restart":
		what = "PostgreSQL " + s.Get("server") + " was started"
	case known && s.Get("host") == m.host:
		// We run on, so the machine did, too: a boot is dated by the clock.
		m.fresh = append(m.fresh, m.clockSet(at-was))
		return
	}
	m.fresh = append(m.fresh, store.Mark{At: time.Unix(int64(at), 0).UTC(), Kind: kind, Host: s.Get("host"),
		Key: s.Get("server") + "@" + strconv.FormatInt(int64(at+1)/4, 10), Text: what})
}

// clockSet is the mark of a clock that was set by some seconds. It has a key of
// its own each time.
func (m *marker) clockSet(by float64) store.Mark {
	now, way := time.Now().UTC(), "forward"
	if by < 0 {
		way = "back"
	}
	return store.Mark{At: now, Kind: "clock", Host: m.host, Key: strconv.FormatInt(now.UnixMilli(), 10),
		Text: fmt.Sprintf("the clock was set %s by %s", way, unit.Seconds(math.Abs(by)))}
}

// run keeps marks until the context ends.
func (m *marker) run(ctx context.Context) error {
	tick := time.NewTicker(marksEvery)
	defer tick.Stop()
	said := ""
	for {
		if err := m.round(ctx); err != nil && err.Error() != said && ctx.Err() == nil {
			said = err.Error()
			m.say("note: marks on charts are missing: " + said)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// round finds what is new and keeps it; what the store does not take now is
// kept in the next round.
func (m *marker) round(ctx context.Context) error {
	found, err := m.changes()
	results, terr := m.trials()
	if err == nil {
		err = terr
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.unread = err
	for _, k := range append(found, results...) {
		if !m.done[k.Kind+k.Key] {
			m.done[k.Kind+k.Key] = true
			m.fresh = append(m.fresh, k)
		}
	}
	if len(m.fresh) == 0 {
		return err
	}
	if kerr := m.keep(ctx, m.fresh); kerr != nil {
		return err // the store is away: that is told elsewhere
	}
	m.fresh = nil
	return err
}

// gaps names what cannot be shown of changes and trials.
func (m *marker) gaps() []metric.Gap {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.unread == nil {
		return nil
	}
	g := metric.Gap{Collector: "journal", Metrics: []string{}, Because: "changes, trials and their marks are not shown: " + m.unread.Error()}
	if errors.Is(m.unread, fs.ErrPermission) {
		top := filepath.Dir(m.results)
		g.Hint = fmt.Sprintf("let this account read them, as root: cd %s && chgrp -R %d journal results; chmod -R g+rX journal results", top, os.Getegid())
	}
	return []metric.Gap{g}
}

// changes makes marks of the journal: when a change was applied, and when it
// was taken back.
func (m *marker) changes() ([]store.Mark, error) {
	entries, err := m.journal.List()
	if err != nil {
		return nil, fmt.Errorf("read the journal: %w", err)
	}
	var out []store.Mark
	for _, e := range entries {
		if e.Plan == nil || e.Hold {
			continue
		}
		mark := store.Mark{Host: m.host, Text: e.Plan.Title() + " (change " + e.ID + ")", Link: "/journal/" + e.ID}
		for i, r := range e.Records {
			switch {
			case i == 0:
				mark.At, mark.Kind, mark.Key = r.At, "change", e.ID
				out = append(out, mark)
			case i == len(e.Records)-1 && e.Phase == change.Reverted:
				mark.At, mark.Kind, mark.Key = r.At, "revert", e.ID
				out = append(out, mark)
			}
		}
	}
	return out, nil
}

// trials makes marks of the results that were kept. A file is read once.
func (m *marker) trials() ([]store.Mark, error) {
	files, err := os.ReadDir(m.results)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // no trial was run yet
	}
	if err != nil {
		return nil, fmt.Errorf("list results: %w", err)
	}
	var out []store.Mark
	for _, f := range files {
		name, ok := strings.CutSuffix(f.Name(), ".json")
		if !ok || m.seen[name] {
			continue
		}
		m.seen[name] = true
		if mark, err := m.trial(name); err == nil { // the page lists what cannot be read
			out = append(out, mark)
		}
	}
	return out, nil
}

func (m *marker) trial(name string) (store.Mark, error) {
	mark := store.Mark{Kind: "trial", Host: m.host, Key: name, Link: "/lab/" + name}
	f, err := os.Open(filepath.Join(m.results, name+".json"))
	if err != nil {
		return mark, err
	}
	defer f.Close()
	if strings.Contains(name, "-lab-") {
		r, err := lab.Load(f)
		if err != nil {
			return mark, err
		}
		mark.At, mark.Text = r.Started, "lab "+r.Lab
		return mark, nil
	}
	r, err := trial.Load(f)
	if err != nil {
		return mark, err
	}
	mark.At, mark.Text = r.Started, r.Name
	return mark, nil
}
