package metric

import (
	"context"
	"fmt"
	"slices"
	"time"

	"headroom/host"
)

// Target is the kind of thing that a collector looks at. A host collector runs
// once for each machine, the others once for each server found on it, with a
// Reader that is connected to that server.
type Target string

// The targets.
const (
	Host      Target = "host"
	Postgres  Target = "postgres"
	PgBouncer Target = "pgbouncer"
	Nginx     Target = "nginx"
)

// Collector reads one source of numbers, in one round trip where the source is
// a server. What it must remember between rounds it has from Kept.
type Collector struct {
	Name     string // postgres.activity; stable for ever
	Doc      string // one sentence
	Of       Target
	Every    time.Duration // 0: 10 s
	Fast     bool          // so cheap that it may run each second while somebody looks
	Deadline time.Duration // 0: 5 s; after it the round is given up
	Defs     []*Def
	// Collect adds what it reads to out. An error means that the whole source
	// could not be read; a part that is missing is an out.Gap.
	Collect func(ctx context.Context, r host.Reader, out *Out) error
}

// Check returns what is wrong with the declaration, nil if nothing is.
func (c *Collector) Check() error {
	if c.Name == "" || c.Doc == "" || c.Of == "" || c.Collect == nil || len(c.Defs) == 0 {
		return fmt.Errorf("collector %q: name, doc, target, metrics or function is missing", c.Name)
	}
	for _, d := range c.Defs {
		if err := d.Check(); err != nil {
			return fmt.Errorf("collector %s: %w", c.Name, err)
		}
	}
	return nil
}

// Gap says that something could not be read, and why: a view that this version
// lacks, a right that is missing, a source that is too slow. It is shown in
// the place of the graph, which is never drawn empty.
type Gap struct {
	Collector string   `json:"collector"`
	Metrics   []string `json:"metrics"` // names; all of the collector's where the whole source failed
	Server    string   `json:"server,omitempty"`
	Because   string   `json:"because"`
	Hint      string   `json:"hint,omitempty"` // the way out: the GRANT, the setting
}

// Out takes what one round of a collector reads.
type Out struct {
	At     time.Time // the time of all samples of the round
	Memory *Memory   // of this collector and server; never nil
	common []Label   // host, server
	c      *Collector
	Rows   []Row
	Gaps   []Gap
	key    []byte
	wrong  error
}

// NewOut returns an Out for a round at a time; common labels (host, server)
// go to every series.
func NewOut(c *Collector, at time.Time, common ...Label) *Out {
	return &Out{At: at, Memory: &Memory{}, c: c, common: common}
}

// Add adds one sample. The values are those of the definition's labels, in
// its order; text that is not valid UTF-8 is mended, over-long text cut.
func (o *Out) Add(d *Def, value float64, values ...string) {
	if !slices.Contains(o.c.Defs, d) || len(values) != len(d.Labels) {
		o.wrong = fmt.Errorf("collector %s: metric %s with %d labels was not declared", o.c.Name, d.Name, len(values))
		return
	}
	s, err := o.find(d, values)
	if err != nil {
		o.wrong = fmt.Errorf("collector %s: %w", o.c.Name, err)
		return
	}
	o.Rows = append(o.Rows, Row{s, []Point{{o.At.UnixMilli(), value}}})
}

// Gap notes that some metrics could not be read.
func (o *Out) Gap(because, hint string, defs ...*Def) {
	g := Gap{Collector: o.c.Name, Because: because, Hint: hint}
	for _, d := range defs {
		g.Metrics = append(g.Metrics, d.Name)
	}
	o.Gaps = append(o.Gaps, g)
}

// Err is a fault in the collector itself: a metric or label that it did not
// declare.
func (o *Out) Err() error { return o.wrong }
