package fact

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sort"
	"time"

	"headroom/host"
)

// Entry is one fact in a Set.
type Entry struct {
	At      time.Time // when it was read
	Took    float64   // how long reading took, seconds
	Value   any       // the source's T; nil if Unknown
	Unknown string    // why it could not be told; "" if it could
	err     error
}

// Set is the facts of one machine at one time. It is read-only after Gather
// or Load and safe for concurrent use then.
type Set struct {
	Host    string    // name of the machine
	Taken   time.Time // when gathering began, UTC
	Version string    // of Headroom that gathered
	entries map[string]*Entry
}

// Options steers Gather.
type Options struct {
	Probes  bool   // allow facts that are measured (see Source.Probe)
	Host    string // name of the machine
	Version string
}

// Gather reads the wanted facts, each once, and whatever they depend on. It
// always returns a Set: what could not be told says why. Only a context that
// ended is an error.
func Gather(ctx context.Context, r host.Reader, o Options, want ...Any) (*Set, error) {
	in := &In{Reader: r, probes: o.Probes, busy: map[string]bool{},
		set: &Set{Host: o.Host, Taken: r.Now().UTC(), Version: o.Version, entries: map[string]*Entry{}}}
	for _, s := range want {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		in.entry(ctx, s)
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return in.set, nil
}

func (in *In) entry(ctx context.Context, s Any) *Entry {
	if e, ok := in.set.entries[s.Key()]; ok {
		return e
	}
	if in.busy[s.Key()] {
		panic("BUG: fact " + s.Key() + " depends on itself")
	}
	in.busy[s.Key()] = true
	start := time.Now()
	e := &Entry{At: in.Now().UTC()}
	if s.IsProbe() && !in.probes {
		e.err = errors.New("measuring was refused")
	} else {
		e.Value, e.err = s.read(ctx, in)
	}
	if e.err != nil {
		e.Value, e.Unknown = nil, e.err.Error()
	}
	e.Took = time.Since(start).Seconds()
	in.set.entries[s.Key()] = e
	return e
}

// Names lists the facts in the set, sorted.
func (s *Set) Names() []string {
	out := make([]string, 0, len(s.entries))
	for n := range s.entries {
		out = append(out, n)
	}
	sort.Strings(out)
	return out
}

// Entry returns one fact by name; ok is false if it was not gathered.
func (s *Set) Entry(name string) (Entry, bool) {
	e, ok := s.entries[name]
	if !ok {
		return Entry{}, false
	}
	return *e, true
}

// Why returns the reason why a fact cannot be used, or "" if it can.
func (s *Set) Why(src Any) string {
	e, ok := s.entries[src.Key()]
	if !ok {
		return "the fact " + src.Key() + " was not gathered"
	}
	return e.Unknown
}

// Get returns a fact that is known to be there: a check calls it for its
// declared needs only. Anything else is a programmer's fault and panics.
func Get[T any](s *Set, src *Source[T]) T {
	if why := s.Why(src); why != "" {
		panic("BUG: get fact " + src.Name + ": " + why)
	}
	return s.entries[src.Name].Value.(T)
}

// Look returns a fact if it could be told.
func Look[T any](s *Set, src *Source[T]) (v T, ok bool) {
	if s.Why(src) != "" {
		return v, false
	}
	return s.entries[src.Name].Value.(T), true
}

// Put returns a Set that holds one fact more (or another value for it); for
// stories and tests, and for what a plan assumes after a change.
func Put[T any](s *Set, src *Source[T], v T) *Set {
	out := *s
	out.entries = map[string]*Entry{src.Name: {At: s.Taken, Value: v}}
	for n, e := range s.entries {
		if n != src.Name {
			out.entries[n] = e
		}
	}
	return &out
}

// Error returns the error behind a fact that could not be told, or nil. It is
// nil as well for a fact that was loaded from a file.
func (s *Set) Error(src Any) error {
	if e, ok := s.entries[src.Key()]; ok {
		return e.err
	}
	return nil
}

const format = "headroom-facts"

type fileSet struct {
	Format  string               `json:"format"`
	Schema  int                  `json:"schema"`
	Version string               `json:"headroom"`
	Host    string               `json:"host"`
	Taken   time.Time            `json:"taken"`
	Facts   map[string]fileEntry `json:"facts"`
}

type fileEntry struct {
	At      time.Time       `json:"at"`
	Took    float64         `json:"took_seconds"`
	Value   json.RawMessage `json:"value,omitempty"`
	Unknown string          `json:"unknown,omitempty"`
}

// Save writes the set as JSON, keys sorted.
func (s *Set) Save(w io.Writer) error {
	out := fileSet{Format: format, Schema: 1, Version: s.Version, Host: s.Host, Taken: s.Taken, Facts: map[string]fileEntry{}}
	for name, e := range s.entries {
		fe := fileEntry{At: e.At, Took: e.Took, Unknown: e.Unknown}
		if e.Unknown == "" {
			raw, err := json.Marshal(e.Value)
			if err != nil {
				return fmt.Errorf("save fact %s: %w", name, err)
			}
			fe.Value = raw
		}
		out.Facts[name] = fe
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	if err := enc.Encode(out); err != nil {
		return fmt.Errorf("save facts: %w", err)
	}
	return nil
}

const fileLimit = 64 << 20

// Load reads a set that Save wrote. Facts whose source is not in known (from
// a newer Headroom) are left out and named in skipped. Errors name the fact.
func Load(r io.Reader, known []Any) (set *Set, skipped []string, err error) {
	var f fileSet
	dec := json.NewDecoder(io.LimitReader(r, fileLimit))
	if err := dec.Decode(&f); err != nil {
		return nil, nil, fmt.Errorf("read facts: not a facts file: %w", err)
	}
	if f.Format != format || f.Schema != 1 {
		return nil, nil, fmt.Errorf("read facts: format %q, schema %d: this Headroom reads %q, schema 1", f.Format, f.Schema, format)
	}
	byName := map[string]Any{}
	for _, s := range known {
		byName[s.Key()] = s
	}
	set = &Set{Host: f.Host, Taken: f.Taken, Version: f.Version, entries: map[string]*Entry{}}
	for name, fe := range f.Facts {
		src, ok := byName[name]
		if !ok {
			skipped = append(skipped, name)
			continue
		}
		e := &Entry{At: fe.At, Took: fe.Took, Unknown: fe.Unknown}
		if fe.Unknown == "" {
			if e.Value, err = src.decode(fe.Value); err != nil {
				return nil, nil, err
			}
		}
		set.entries[name] = e
	}
	sort.Strings(skipped)
	return set, skipped, nil
}
