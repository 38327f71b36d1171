package pgscript

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"time"

	"headroom/engine/loop"
	"headroom/engine/pgwire"
)

// Protocol is how statements travel.
type Protocol string

// The protocols, by pgbench's names. Unlike pgbench, Extended and Prepared ask
// for no description of the result, unless \gset needs one.
const (
	Simple   Protocol = "simple"   // text with the variables put in
	Extended Protocol = "extended" // parsed each time, variables as parameters
	Prepared Protocol = "prepared" // parsed once per connection
)

// Weighted is a script and how often it is chosen.
type Weighted struct {
	Script *Script
	Weight int // share of the transactions; 0 is never
}

// Options steers a Driver. Of loop.Options, Duration is replaced by Run's.
type Options struct {
	loop.Options
	DSN         string
	Scripts     []Weighted
	Protocol    Protocol          // "" is Simple
	Vars        map[string]string // set before the first transaction of each client
	MaxTries    int               // of a transaction after serialization failures and deadlocks; 0 or 1 is no retry
	NewConnEach bool              // a new connection for each transaction, inside its latency
	Statements  bool              // keep the mean latency of each statement
	Debug       io.Writer         // for the function debug; nil drops it
}

// Result is what a Run did.
type Result struct {
	*loop.Result
	Retried    int64       // transactions, of all, that were tried again
	Retries    int64       // further tries, summed up
	Statements []Statement // if asked for; only what was run
}

// Statement is the mean latency of one command of a script.
type Statement struct {
	Place   string  // script:line
	Text    string  // SQL with $1, $2 …; \endpipeline stands for a pipeline's round trip
	Count   int64   // runs, retries included
	Seconds float64 // mean
}

// Driver holds the clients' connections. It is for one goroutine at a time.
type Driver struct {
	opt     Options
	cfg     *pgwire.Config
	global  map[string]int // slots of all scripts' variables
	scripts []linked
	weights int
	names   []string // of the prepared statement of each step
	clients []*client
	closed  error
}

// linked is a script with its variables' places among the driver's.
type linked struct {
	*Script
	weight int
	first  int // number of its first step among all scripts' steps
	slots  []int
}

// Open checks the options, connects all clients and reads what :scale needs.
// Without a table pgbench_branches and without Vars the scale is 1.
func Open(ctx context.Context, o Options) (*Driver, error) {
	if o.Protocol == "" {
		o.Protocol = Simple
	}
	if o.Debug == nil {
		o.Debug = io.Discard
	}
	cfg, err := pgwire.ParseConfig(o.DSN)
	if err != nil {
		return nil, fmt.Errorf("open driver: %w", err)
	}
	d := &Driver{opt: o, cfg: cfg, global: map[string]int{}}
	steps, err := d.link()
	if err != nil {
		return nil, fmt.Errorf("open driver: %w", err)
	}
	for i := range steps {
		d.names = append(d.names, "s"+strconv.Itoa(i))
	}
	for i := range o.Clients {
		d.clients = append(d.clients, d.newClient(i, steps))
	}
	if err := d.connect(ctx); err != nil {
		d.Close()
		return nil, fmt.Errorf("open driver: %w", err)
	}
	return d, nil
}

// link gives all scripts one set of variables and checks what can be known
// before the first transaction.
func (d *Driver) link() (steps int, err error) {
	if d.opt.Clients < 1 {
		return 0, errors.New("no clients")
	}
	if p := d.opt.Protocol; p != Simple && p != Extended && p != Prepared {
		return 0, fmt.Errorf("protocol %q: simple, extended or prepared", p)
	}
	known, anything := map[string]bool{"scale": true, "client_id": true, "random_seed": true, "default_seed": true}, false
	for v := range d.opt.Vars {
		known[v] = true
	}
	for _, w := range d.opt.Scripts {
		if w.Weight < 0 || w.Weight > 1e9 {
			return 0, fmt.Errorf("weight %d of %s: 0 to 1e9", w.Weight, w.Script.Name)
		}
		l := linked{Script: w.Script, weight: w.Weight, first: steps}
		for _, n := range w.Script.names {
			if _, ok := d.global[n]; !ok {
				d.global[n] = len(d.global)
			}
			l.slots = append(l.slots, d.global[n])
		}
		for _, st := range w.Script.steps {
			if st.do == setVar {
				known[w.Script.names[st.slot]] = true
			}
		}
		anything = anything || w.Script.open
		steps += len(w.Script.steps)
		d.weights += w.Weight
		d.scripts = append(d.scripts, l)
	}
	if d.weights == 0 {
		return 0, errors.New("no script with a weight above 0")
	}
	return steps, d.checkScripts(known, anything)
}

func (d *Driver) checkScripts(known map[string]bool, anything bool) error {
	for _, l := range d.scripts {
		for i := range l.steps {
			st := &l.steps[i]
			if st.do == startPipeline && d.opt.Protocol == Simple {
				return l.errorAt(st.at, "a pipeline is not possible in the simple protocol", "the protocols extended and prepared")
			}
			if st.count > 1 && d.opt.Protocol != Simple {
				return l.errorAt(st.at, `statements joined by \; are not possible in the protocol `+string(d.opt.Protocol), "the protocol simple")
			}
			for _, p := range st.parts {
				if p.quoted && known[l.names[p.slot]] && d.opt.Protocol != Simple {
					return l.quotedError(st, p)
				}
			}
			for _, a := range st.args {
				if n := l.names[a]; !known[n] && !anything {
					return l.errorAt(st.at, "the variable :"+n+" is never set", `\set, \gset, or a value from outside`)
				}
			}
		}
	}
	return nil
}

func (d *Driver) newClient(id, steps int) *client {
	c := &client{d: d, id: id, pcg: rand.NewPCG(d.opt.Seed, uint64(id)*0x9e3779b97f4a7c15+1), prepared: make([]bool, steps),
		columns: make([][]int, steps), buf: make([]byte, 0, 256)}
	c.env = env{vars: make([]value, len(d.global)), rng: rand.New(c.pcg), debug: d.opt.Debug, seed: int64(rand.NewPCG(d.opt.Seed, 0xdef).Uint64())}
	if d.opt.Statements {
		c.times = make([]timing, steps)
	}
	c.handler.Row = c.row
	c.describing.Row, c.describing.Columns = c.row, c.describe
	c.set("client_id", intValue(int64(id)))
	c.set("random_seed", intValue(int64(d.opt.Seed)))
	c.set("default_seed", intValue(c.env.seed))
	c.set("scale", intValue(1))
	for k, v := range d.opt.Vars {
		c.set(k, value{kind: text, s: v})
	}
	if v, ok := d.opt.Vars["default_seed"]; ok {
		if n, err := strconv.ParseInt(v, 10, 64); err == nil {
			c.env.seed = n
		}
	}
	return c
}

func (d *Driver) connect(ctx context.Context) error {
	for _, c := range d.clients {
		conn, err := d.cfg.Connect(ctx)
		if err != nil {
			return err
		}
		c.conn = conn
	}
	_, used := d.global["scale"]
	_, given := d.opt.Vars["scale"]
	if used && !given {
		if err := d.askScale(ctx, d.clients[0].conn); err != nil {
			return err
		}
	}
	if d.opt.NewConnEach {
		for _, c := range d.clients {
			c.drop()
		}
	}
	return nil
}

func (d *Driver) askScale(ctx context.Context, conn *pgwire.Conn) error {
	defer conn.Watch(ctx)()
	conn.Query("select count(*) from pgbench_branches")
	_, err := conn.Do(&pgwire.Handler{Row: func(_ int, v [][]byte) error {
		n, err := strconv.ParseInt(string(v[0]), 10, 64)
		if err != nil || n == 0 {
			return errors.New("pgbench_branches is empty")
		}
		for _, c := range d.clients {
			c.set("scale", intValue(n))
		}
		return nil
	}})
	var se *pgwire.ServerError
	if errors.As(err, &se) && se.Code == "42P01" { // no such table
		return nil
	}
	return err
}

// Run drives the load for a time (0: only Transactions ends it) and may be
// called again for further rounds on the same connections; variables, random
// numbers and prepared statements go on. Before it returns for the end of ctx,
// or for an error that ends the load, it cancels what runs on the server and
// closes the Driver, all in less than 200 ms; the result so far comes along.
func (d *Driver) Run(ctx context.Context, duration time.Duration) (*Result, error) {
	if d.closed != nil {
		return nil, fmt.Errorf("run script: %w", d.closed)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var stops []func()
	for _, c := range d.clients {
		c.retried, c.retries = 0, 0
		clear(c.times)
		if c.conn != nil {
			stops = append(stops, c.conn.Watch(ctx))
		}
	}
	o := d.opt.Options
	o.Duration = duration
	o.Shared = d.shareable()
	res, err := loop.Run(ctx, o, func(ctx context.Context, i int) (int, error) {
		if c := d.clients[i].conn; c != nil {
			c.SetWait(loop.Waiter(ctx))
		}
		err := d.clients[i].transaction(ctx)
		var f *loop.Failure
		if err != nil && !errors.As(err, &f) {
			cancel(err) // cuts off what the other clients wait for
		}
		return 1, err
	})
	for _, stop := range stops {
		stop()
	}
	for _, c := range d.clients {
		if c.conn != nil {
			c.conn.SetWait(nil)
		}
	}
	if res == nil {
		return nil, err
	}
	if err != nil {
		d.closed = fmt.Errorf("the driver was closed: %w", err)
		d.drop()
	}
	return d.result(res), err
}

// shareable says whether several clients on a thread serve the scripts best:
// they wait for nothing but the server, and for several answers in each
// transaction. Measured with 4 clients on 2 cores, against pgbench: TPC-B gains
// a fifth by it; a transaction of one short SELECT loses a tenth.
func (d *Driver) shareable() bool {
	if d.opt.NewConnEach {
		return false
	}
	answers := 0
	for _, s := range d.scripts {
		for i := range s.steps {
			switch s.steps[i].do {
			case sleep:
				return false
			case runSQL:
				answers++
			}
		}
	}
	return answers > len(d.scripts)
}

func (d *Driver) result(l *loop.Result) *Result {
	r := &Result{Result: l}
	for _, c := range d.clients {
		r.Retried += c.retried
		r.Retries += c.retries
	}
	if !d.opt.Statements {
		return r
	}
	for _, s := range d.scripts {
		for i := range s.steps {
			var t timing
			for _, c := range d.clients {
				t.count += c.times[s.first+i].count
				t.total += c.times[s.first+i].total
			}
			if t.count == 0 {
				continue
			}
			name := s.steps[i].text
			if s.steps[i].do == endPipeline {
				name = `\endpipeline`
			}
			r.Statements = append(r.Statements, Statement{s.place(s.steps[i].at), name, t.count, t.total.Seconds() / float64(t.count)})
		}
	}
	return r
}

// Close closes all connections. The Driver cannot run any more.
func (d *Driver) Close() error {
	if d.closed == nil {
		d.closed = errors.New("the driver was closed")
	}
	return d.drop()
}

func (d *Driver) drop() error {
	var errs []error
	for _, c := range d.clients {
		errs = append(errs, c.drop())
	}
	return errors.Join(errs...)
}
