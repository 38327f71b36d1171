package peer

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"

	"headroom/fail"
	"headroom/metric"
)

// Options bounds a Book. Zero values are sound choices.
type Options struct {
	// Own is the name of the machine itself if it is watched from within: no
	// other may speak in its name. "" if it is not.
	Own    string
	Silent time.Duration    // without a word for so long a host is silent; 0: 2 minutes
	Keep   time.Duration    // how long a silent host is remembered; 0: 14 days
	Hosts  int              // at most; 0: 5,000
	Bytes  int              // of all documents, packed; 0: 128 MiB
	Now    func() time.Time // nil: time.Now
}

// Book keeps the newest that each host told, and who looks at which. It is
// safe for concurrent use.
type Book struct {
	o Options

	mu        sync.Mutex
	hosts     map[string]*entry
	forgotten map[string]forgotten // hosts that nobody misses any more
	bytes     int
	changed   chan struct{} // closed when something was told
}

// entry is one host.
type entry struct {
	heard time.Time // the last sign of life
	told  map[key]*paper
	found map[string]int       // findings by severity
	looks map[string]time.Time // by server; "" is the host: when somebody looked last
}

// key names a document of a host: a kind, and of sessions the server.
type key struct {
	kind   Kind
	server string
}

// Told is a document and when it came.
type Told struct {
	*Document
	Received time.Time // by our clock
}

// paper is a document in the book: packed, as hundreds of hosts tell and one
// is looked at.
type paper struct {
	received time.Time
	program  string
	packed   []byte
	kept     bool // in the store
}

var (
	packer, _   = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(128<<10)) // options are sound
	unpacker, _ = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true))
)

// read unpacks a document.
func (p *paper) read() (*Document, []byte, error) {
	body, err := unpacker.DecodeAll(p.packed, nil)
	if err != nil {
		return nil, nil, err
	}
	d, err := decode(body)
	return d, body, err
}

// put puts a document into an entry; body is what d was read of.
func (b *Book) put(e *entry, k key, d *Document, body []byte, received time.Time, kept bool) error {
	packed := packer.EncodeAll(body, nil)
	was := 0
	if p := e.told[k]; p != nil {
		was = len(p.packed)
	}
	if b.bytes+len(packed)-was > b.o.Bytes {
		return fmt.Errorf("take what %q tells: %w: what all hosts have told takes %d bytes", d.Host, ErrRoom, b.bytes)
	}
	b.bytes += len(packed) - was
	e.told[k] = &paper{received, d.Program, packed, kept}
	if k.kind == Findings {
		e.found = Count(d.Inspections)
	}
	return nil
}

// Count is how many findings there are, by severity.
func Count(list []Inspection) map[string]int {
	out := map[string]int{}
	for _, i := range list {
		for _, f := range i.Outcome.Findings {
			out[f.Severity.String()]++
		}
	}
	return out
}

// NewBook returns an empty book.
func NewBook(o Options) *Book {
	o.Silent = cmp.Or(o.Silent, 2*time.Minute)
	o.Keep = cmp.Or(o.Keep, 14*24*time.Hour)
	o.Hosts = cmp.Or(o.Hosts, 5000)
	o.Bytes = cmp.Or(o.Bytes, 128<<20)
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Book{o: o, hosts: map[string]*entry{}, forgotten: map[string]forgotten{}, changed: make(chan struct{})}
}

// ErrOwn says that a host has the name of the machine itself.
var ErrOwn = errors.New("the machine that takes it has this name")

// ErrRoom says that no more is kept.
var ErrRoom = errors.New("there is no room for it")

// Heard notes a sign of life of a host. A host for which there is no room is
// passed over.
func (b *Book) Heard(host string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if host == "" || host == b.o.Own || len(host) > metric.MaxOrigin || fault(host) != "" {
		return
	}
	if e := b.open(host); e != nil {
		e.heard = b.o.Now()
	}
}

// open returns the entry of a host, a new one if there is room; else nil.
func (b *Book) open(host string) *entry {
	e := b.hosts[host]
	if e != nil {
		return e
	}
	if len(b.hosts) >= b.o.Hosts {
		b.forget()
	}
	if len(b.hosts) >= b.o.Hosts {
		return nil
	}
	e = &entry{told: map[key]*paper{}, looks: map[string]time.Time{}}
	b.hosts[host] = e
	delete(b.forgotten, host)
	return e
}

// forget drops hosts that have been silent for long.
func (b *Book) forget() {
	for name, e := range b.hosts {
		if b.o.Now().Sub(e.heard) > b.o.Keep {
			b.drop(name, e)
		}
	}
	for name, f := range b.forgotten {
		if b.o.Now().Sub(f.at) > b.o.Keep {
			delete(b.forgotten, name)
		}
	}
}

func (b *Book) drop(name string, e *entry) {
	for _, t := range e.told {
		b.bytes -= len(t.packed)
	}
	delete(b.hosts, name)
}

// maxServers bounds the servers whose sessions are kept of a host.
const maxServers = 64

// Put takes a document as it came, and what Decode made of it.
func (b *Book) Put(d *Document, body []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if d.Host == b.o.Own {
		return fail.Hint(fmt.Errorf("take what %q tells: %w", d.Host, ErrOwn), "give the other machine a name of its own: hostnamectl hostname NAME")
	}
	e := b.open(d.Host)
	if e == nil {
		return fmt.Errorf("take what %q tells: %w: %d hosts are known", d.Host, ErrRoom, len(b.hosts))
	}
	e.heard = b.o.Now()
	k := key{d.Kind, d.Server}
	if e.told[k] == nil && len(e.told) >= maxServers+4 {
		return fmt.Errorf("take what %q tells: %w: it has told of %d servers", d.Host, ErrRoom, maxServers)
	}
	if err := b.put(e, k, d, body, e.heard, d.Kind == Sessions); err != nil {
		return err
	}
	close(b.changed)
	b.changed = make(chan struct{})
	return nil
}

// Host is one host of the book.
type Host struct {
	Name    string             `json:"name"`
	Heard   time.Time          `json:"heard"`                 // its last sign of life
	Silent  time.Time          `json:"silent_since,omitzero"` // zero: it speaks
	Program string             `json:"version,omitempty"`     // of the Headroom there; "" for one that sends figures only
	Told    map[Kind]time.Time `json:"told,omitempty"`        // when it told of what
	Found   map[string]int     `json:"findings"`              // how many, by severity; null: not told
	Looked  bool               `json:"looked_at,omitempty"`   // somebody looks at it now
}

// Hosts lists them by name; a host silent for longer than the book remembers
// is left out.
func (b *Book) Hosts() []Host {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.forget()
	out := make([]Host, 0, len(b.hosts))
	for name, e := range b.hosts {
		out = append(out, b.host(name, e))
	}
	slices.SortFunc(out, func(a, b Host) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// Host tells of one; false if nothing is known of it.
func (b *Book) Host(name string) (Host, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.hosts[name]
	if e == nil {
		return Host{}, false
	}
	return b.host(name, e), true
}

func (b *Book) host(name string, e *entry) Host {
	h := Host{Name: name, Heard: e.heard, Silent: b.SilentSince(e.heard), Told: map[Kind]time.Time{}, Found: e.found, Looked: b.looked(e.looks[""])}
	newest := time.Time{}
	for k, t := range e.told {
		if t.received.After(h.Told[k.kind]) {
			h.Told[k.kind] = t.received
		}
		if t.received.After(newest) {
			newest, h.Program = t.received, t.program
		}
	}
	return h
}

// SilentSince is since when a host that was heard at a time last is silent;
// zero if that is not long ago.
func (b *Book) SilentSince(heard time.Time) time.Time {
	if b.o.Now().Sub(heard) > b.o.Silent {
		return heard
	}
	return time.Time{}
}

// Told is what a host told last of a kind; false if it has not.
func (b *Book) Told(host string, k Kind) (Told, bool) { return b.told(host, key{kind: k}) }

func (b *Book) told(host string, k key) (Told, bool) {
	b.mu.Lock()
	var p *paper
	if e := b.hosts[host]; e != nil {
		p = e.told[k]
	}
	b.mu.Unlock()
	if p == nil {
		return Told{}, false
	}
	d, _, err := p.read()
	if err != nil {
		return Told{}, false // it was read when it came
	}
	return Told{d, p.received}, true
}

// Own says whether a host is the machine itself, watched from within.
func (b *Book) Own(host string) bool { return host == b.o.Own }
