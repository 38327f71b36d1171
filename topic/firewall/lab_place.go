package firewall

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"headroom/engine/netns"
	"headroom/engine/packet"
	"headroom/fail"
	"headroom/host"
	"headroom/lab"
)

// works is one run of the lab.
type works struct {
	wire     bool
	ms       int
	size     int
	entries  int
	rows     []*row
	places   map[string]*place
	sendCPU  int
	takeCPU  int // on a wire another one, if there is one
	addrs    []netip.Prefix
	device   string // of the far end; "": the place's own
	machine  *host.Local
	prepared int
}

// sources is how many different ones a flood over a wire has at most.
const sources = 16384

// place is where one row's packets are dropped or accepted.
type place struct {
	near, far *netns.Namespace // on a loopback the same
	device    string           // of the far end
	flood     packet.Flood
	count     func() (int64, error)
	work      func() (int64, error) // the receiving thread's CPU time in ns; nil: all the time that passed
	machine   host.Reader
	loaded    time.Duration // to load the rules and their sets; 0: there are none
	memory    int64         // of the sets in the kernel, bytes; 0: unknown
	closers   []func()
}

func (p *place) close() {
	for i := len(p.closers) - 1; i >= 0; i-- {
		p.closers[i]()
	}
	p.closers = nil
}

// setup makes every row's place. A row that cannot be made is left out with
// the reason.
func (w *works) setup(ctx context.Context, s *lab.Stand, say func(string)) error {
	w.machine = host.Open(host.Options{})
	w.places = map[string]*place{}
	s.Defer(func() error {
		for _, p := range w.places {
			p.close()
		}
		w.machine.Close()
		return nil
	})
	if err := w.pickCPUs(); err != nil {
		return err
	}
	probe, err := netns.New() // without namespaces there is no lab
	if err != nil {
		return err
	}
	probe.Close()
	for _, r := range w.rows {
		say("making ready: " + r.name)
		p, err := w.build(ctx, r)
		if ctx.Err() != nil {
			if p != nil {
				p.close()
			}
			return context.Cause(ctx)
		}
		if err != nil {
			p.close()
			s.Skip(r.name, reason(err))
			continue
		}
		w.places[r.name] = p
	}
	return nil
}

// reason is the first line of an error, with its way out.
func reason(err error) string {
	text, _, _ := strings.Cut(err.Error(), "\n")
	if h := fail.HintOf(err); h != "" {
		text += " (" + h + ")"
	}
	return text
}

func (w *works) pickCPUs() error {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return fmt.Errorf("read which CPUs there are: %w", err)
	}
	w.sendCPU, w.takeCPU = -1, -1
	for cpu := range 1024 {
		if set.IsSet(cpu) {
			if w.sendCPU < 0 {
				w.sendCPU = cpu
			}
			w.takeCPU = cpu
		}
	}
	if !w.wire {
		w.sendCPU = w.takeCPU
	}
	return nil
}

// build makes one place. It returns what was made with an error, too.
func (w *works) build(ctx context.Context, r *row) (*place, error) {
	p := &place{machine: w.machine}
	w.prepared++
	var err error
	if w.wire {
		err = w.joined(p)
	} else {
		err = w.alone(p)
	}
	if err != nil {
		return p, err
	}
	if err := p.load(ctx, r, w.set(r)); err != nil {
		return p, err
	}
	if p.flood.Mix == nil {
		p.flood.Mix = w.mix(r)
	}
	if r.bound {
		stop, err := readFrom(p.far, w.to(), w.takeCPU)
		if err != nil {
			return p, err
		}
		p.closers = append(p.closers, stop)
	}
	if p.count == nil {
		p.count = p.dropped
		if r.accept {
			p.count = p.delivered
		}
	}
	return p, nil
}

// alone is a namespace whose loopback is flooded.
func (w *works) alone(p *place) error {
	n, err := netns.New()
	if err != nil {
		return err
	}
	p.closers = append(p.closers, n.Close)
	p.near, p.far, p.device = n, n, "lo"
	to, err := packet.Inside(n, "lo")
	p.flood = packet.Flood{To: to, Method: packet.Mmsg, CPUs: []int{w.sendCPU}}
	return err
}

// joined is a pair of namespaces; a thread of the kernel takes the packets in
// at the far end, on a CPU of its own.
func (w *works) joined(p *place) error {
	for _, n := range []**netns.Namespace{&p.near, &p.far} {
		var err error
		if *n, err = netns.New(); err != nil {
			return err
		}
		p.closers = append(p.closers, (*n).Close)
	}
	wire := netns.Between()
	wire.Poll = true
	wire.B.Addrs = append(wire.B.Addrs, w.addrs...)
	if wire.B.Name = w.device; w.device == "" {
		wire.B.Name = fmt.Sprintf("h%dp%d", w.prepared, unix.Getpid()%1e6)
	}
	if err := netns.Join(p.near, p.far, wire); err != nil {
		return err
	}
	p.device = wire.B.Name
	thread, err := p.far.PollOn(p.device, w.takeCPU)
	if err != nil {
		return err
	}
	p.work = thread.Ran
	to, err := packet.Inside(p.near, wire.A.Name)
	p.flood = packet.Flood{To: to, CPUs: []int{w.sendCPU}}
	return err
}

// arrived reads the count once packets of those sent have come and no more do.
// The thread that takes them in may be late; what the wire's queue had no room
// for never comes.
func (p *place) arrived(from, sent int64) (int64, error) {
	const queue = 64 // less than any queue's length
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if n, err := p.count(); err != nil || n-from >= min(sent, queue) {
			break
		}
	}
	return packet.Settled(p.count)
}

// got is what a turn yielded.
type got struct {
	sent, packets, nanos int64
	took                 time.Duration
	busy                 float64
}

// measure floods for so many milliseconds.
func (p *place) measure(ctx context.Context, ms int) (g got, err error) {
	cpu := p.flood.CPUs[0]
	before, err := packet.ReadCores(p.machine)
	if err != nil {
		return g, err
	}
	from, err := p.count()
	if err != nil {
		return g, err
	}
	var worked int64
	if p.work != nil {
		if worked, err = p.work(); err != nil {
			return g, err
		}
	}
	f := p.flood
	f.For = time.Duration(ms) * time.Millisecond
	sent, err := f.Run(ctx)
	if err != nil {
		return g, err
	}
	to, err := p.arrived(from, sent.Packets)
	g = got{sent: sent.Packets, packets: to - from, nanos: int64(sent.Took), took: sent.Took}
	after, cerr := packet.ReadCores(p.machine)
	if err := errors.Join(err, cerr); err != nil {
		return g, err
	}
	g.busy = after.Since(before)[cpu].Busy()
	if p.work == nil {
		return g, nil
	}
	now, err := p.work()
	g.nanos = now - worked
	g.busy = min(float64(g.nanos)/float64(g.took), 1)
	return g, err
}
