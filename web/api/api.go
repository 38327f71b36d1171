// Package api answers programs: it takes samples (acknowledged when they are
// on disk in the queue), and gives out what is stored, found, changed and
// live, as JSON, CSV, events and Prometheus text. The contract is
// openapi.yaml; a test holds the two together.
//
// A Route is data: who may call it, what it takes, what answers. The server
// puts its one guard before all of them.
package api

import (
	"cmp"
	"context"
	_ "embed"
	"sync"
	"sync/atomic"
	"time"

	"headroom/agent"
	"headroom/change"
	"headroom/metric"
	"headroom/peer"
	"headroom/queue"
	"headroom/store"
	"headroom/topic/postgres"
	"headroom/web/auth"
	"headroom/web/live"
)

//go:embed openapi.yaml
var openAPI []byte

// OpenAPI is the contract as OpenAPI 3.1 in YAML.
func OpenAPI() []byte { return openAPI }

// Store is what the answers need of *store.Store.
type Store interface {
	Query(ctx context.Context, q store.Query) (*store.Frame, error)
	Series(ctx context.Context, m []store.Match, from, to time.Time, limit int) ([]store.SeriesInfo, error)
	LabelValues(ctx context.Context, label string, m []store.Match) ([]string, error)
	Marks(ctx context.Context, from, to time.Time) ([]store.Mark, error)
}

// Parts are what the answers are made of. Only Queue and Hub are required; a
// part that is left out is answered with 503 and a reason, never with an
// empty list.
type Parts struct {
	Host    string // name of this machine
	Version string // of Headroom
	Queue   queue.Queue
	Hub     *live.Hub
	// Store returns the store, or why there is none now.
	Store func() (Store, error)
	// StoreStatus describes the store for /status; any value that JSON takes.
	StoreStatus func(ctx context.Context) (any, error)
	Worker      func() WorkerState
	Defs        []*metric.Def // metrics that this program collects, for /metrics
	Findings    func() []peer.Inspection
	Journal     *change.Journal
	Trials      string // folder of trial results
	Gaps        func() []metric.Gap
	Targets     func() []agent.Target
	// Sessions lists what runs now on a server of this machine, by its label.
	Sessions func(ctx context.Context, server string) ([]postgres.Session, error)
	// Hosts is what other hosts tell of themselves; nil: nobody is heard.
	Hosts   *peer.Book
	Changes *Changes        // nil: no plans
	Decoder *metric.Decoder // shared with who reads the queue, so that each series is kept once; nil: its own
	Usage   *auth.Usage     // where it is kept how many new series tokens brought; nil: in memory
	Limits  Limits
	Log     func(string) // nil: silence
	Now     func() time.Time
}

// WorkerState is how the way from the queue to the store goes.
type WorkerState struct {
	Stored  int64     `json:"stored_points"`          // since the start
	Killed  int64     `json:"set_aside_batches"`      // since the start
	Last    time.Time `json:"last_stored,omitzero"`   // when something was stored last
	Lag     float64   `json:"lag_seconds"`            // from the queue to the commit, of the last round
	Trouble string    `json:"trouble,omitempty"`      // why nothing can be stored now
	Since   time.Time `json:"trouble_since,omitzero"` // of Trouble
}

// Limits bound what one request, and all together, may bring. Zero values are
// the defaults.
type Limits struct {
	Window     metric.Window // times that are taken; default: 14 days back, 5 minutes ahead
	WireBytes  int64         // of a body as sent; 32 MiB
	RawBytes   int64         // of a body unpacked; 64 MiB
	LineBytes  int           // of one JSON line; 1 MiB
	Series     int           // series in all that are taken within a day, shared by the tokens; 500,000
	Patience   time.Duration // for each MiB of a body to come; 30 s
	Reading    time.Duration // of the store, for one answer; 40 s
	Requests   int           // requests that bring samples, at the same time; half of them with one token; 32
	Memory     int64         // that these may take, together, about; 128 MiB
	Streams    int           // live streams in all; 2,048
	StreamsOne int           // live streams of one session or token; 32
}

func (l Limits) withDefaults() Limits {
	def := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	if l.Window == (metric.Window{}) {
		l.Window = metric.Window{Past: 14 * 24 * time.Hour, Future: 5 * time.Minute}
	}
	if l.WireBytes == 0 {
		l.WireBytes = 32 << 20
	}
	if l.RawBytes == 0 {
		l.RawBytes = 64 << 20
	}
	if l.Memory == 0 {
		l.Memory = 128 << 20
	}
	l.Patience = cmp.Or(l.Patience, 30*time.Second)
	l.Reading = cmp.Or(l.Reading, readTime)
	def(&l.LineBytes, 1<<20)
	def(&l.Series, 500_000)
	def(&l.Requests, 32)
	def(&l.Streams, 2048)
	def(&l.StreamsOne, 32)
	return l
}

// API answers. Make it with New; it is safe for concurrent use.
type API struct {
	Parts
	book     *book
	slots    *places
	streams  streams
	flow     flow
	counts   counts
	answered sync.Map // status class "2xx" -> *atomic.Int64
	began    time.Time
	plans    plans
	life     context.Context // ends with Close
	end      context.CancelFunc

	background sync.WaitGroup
}

// counts are totals since the start.
type counts struct {
	points, rejected, stale, odd, over, batches, bytes atomic.Int64
}

// New returns the answers made of parts.
func New(p Parts) *API {
	p.Limits = p.Limits.withDefaults()
	if p.Now == nil {
		p.Now = time.Now
	}
	if p.Log == nil {
		p.Log = func(string) {}
	}
	if p.Decoder == nil {
		p.Decoder = &metric.Decoder{}
	}
	a := &API{Parts: p, began: p.Now()}
	a.book = newBook(p.Limits.Series, p.Now)
	a.slots = newPlaces(p.Limits.Memory)
	a.streams.by = map[string]int{}
	a.life, a.end = context.WithCancel(context.Background())
	if p.Usage != nil {
		a.keepUsage()
	}
	return a
}

// Close ends all live streams, and takes back a change that is under way. It
// returns when that is done.
func (a *API) Close() {
	a.end()
	a.plans.running.Wait()
	a.background.Wait()
}
