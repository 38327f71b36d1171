package packet

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"time"

	"headroom/engine/netns"
	"headroom/fail"
	"headroom/host"
)

// Kind is what a flood is made of.
type Kind string

// The kinds.
const (
	Datagrams Kind = "udp"
	SYNs      Kind = "syn"  // TCP segments that open connections
	Echoes    Kind = "icmp" // echo requests
)

// Ports is a range of ports, both ends included.
type Ports struct{ First, Last uint16 }

// Order is a flood with all that it takes: where to, what, and what counts it.
type Order struct {
	// To is a loopback address; the zero Addr is the far end of a pair of
	// namespaces that are made for the flood and end with it.
	To    netip.Addr
	V6    bool // of the pair of namespaces: IPv6 instead of IPv4
	Kind  Kind
	Size  int     // of a whole IP packet in bytes; 0: as small as can be
	Ports []Ports // destination ports, used in turns; none: 9 (discard)
	// Spoof is where sources are taken from at random; the zero Prefix sends
	// from the own address.
	Spoof  netip.Prefix
	Method Method
	Rate   float64 // packets per second; 0: as fast as it goes
	Count  int64   // packets; 0: no limit
	For    time.Duration
	CPUs   []int // that send; none: one thread, on any CPU
	Seed   uint64
}

// Outcome is what came of an Order.
type Outcome struct {
	Sent
	Where   string `json:"where"`
	Arrived int64  `json:"arrived"`
	At      string `json:"at"`    // where they were counted
	Cores   Cores  `json:"cores"` // what each CPU did meanwhile
}

// ArrivedPerSecond is the packets that arrived per second of sending.
func (o Outcome) ArrivedPerSecond() float64 {
	if o.Took <= 0 {
		return 0
	}
	return float64(o.Arrived) / o.Took.Seconds()
}

// CPUSeconds is what all CPUs worked meanwhile, other programs included.
func (o Outcome) CPUSeconds() float64 {
	sum := 0.0
	for _, c := range o.Cores {
		sum += c.Total() - c.Idle - c.Steal
	}
	return sum
}

// Run sends and counts. An end of ctx is no error: the outcome is what was
// sent and arrived until then.
func (o Order) Run(ctx context.Context, l host.Reader) (Outcome, error) {
	p, err := o.place()
	if err != nil {
		return Outcome{}, err
	}
	defer p.close()
	mix, err := o.Mix(p.from, p.to)
	if err != nil {
		return Outcome{}, fail.With(err, fail.Usage)
	}
	f := Flood{To: p.target, Mix: mix, Method: o.Method, Rate: o.Rate, Count: o.Count, For: o.For, CPUs: o.CPUs}
	before, err := ReadCores(l)
	if err != nil {
		return Outcome{}, err
	}
	if err := p.mark(); err != nil {
		return Outcome{}, err
	}
	out := Outcome{Where: p.where, At: p.at}
	out.Sent, err = f.Run(ctx)
	after, cerr := ReadCores(l)
	arrived, aerr := p.arrived()
	if err := errors.Join(err, cerr, aerr); err != nil {
		return out, err
	}
	out.Cores, out.Arrived = after.Since(before), arrived
	if more := arrived - out.Packets; more > 0 && !p.target.host {
		out.At += fmt.Sprintf("; %d of them the kernel's own multicast reports", more)
	}
	return out, nil
}

// mixed is how many different packets are sent in turns where they are random:
// a power of two, which the ring's slots are a multiple of.
const mixed = 4096

// Mix makes the packets from one address to another.
func (o Order) Mix(from, to netip.Addr) ([]Packet, error) {
	ports, err := o.ports()
	if err != nil {
		return nil, err
	}
	if o.Spoof.IsValid() && o.Spoof.Addr().Is4() != to.Is4() {
		return nil, fmt.Errorf("send from %s to %s: they are of two families", o.Spoof, to)
	}
	n := len(ports)
	if o.Spoof.IsValid() || o.Kind != Datagrams {
		n = max(n, mixed)
	}
	rng := rand.New(rand.NewPCG(o.Seed, 0x666c_6f6f_64))
	mix := make([]Packet, n)
	for i := range mix {
		p := Packet{Src: from, Dst: to, Size: o.Size, SrcPort: 40000, DstPort: ports[i%len(ports)]}
		if o.Spoof.IsValid() {
			p.Src, p.SrcPort = within(rng, o.Spoof), uint16(1024+rng.IntN(64512))
		}
		switch o.Kind {
		case Datagrams:
			p.Proto = UDP
		case SYNs:
			p.Proto, p.Flags, p.Seq, p.SrcPort = TCP, SYN, rng.Uint32(), uint16(1024+rng.IntN(64512))
		case Echoes:
			p.Proto, p.Type, p.Rest, p.DstPort, p.SrcPort = ICMP, 8, rng.Uint32(), 0, 0
			if to.Is6() {
				p.Proto, p.Type = ICMPv6, 128
			}
		default:
			return nil, fmt.Errorf("send packets of kind %q: there are udp, syn and icmp", o.Kind)
		}
		mix[i] = p
	}
	least := mix[0]
	least.Size = 0
	if b, err := least.Bytes(); err != nil || o.Size > 0 && o.Size < len(b) {
		return nil, errors.Join(err, fmt.Errorf("send packets of %d bytes: the headers of %s to %s take %d", o.Size, o.Kind, to, len(b)))
	}
	return mix, nil
}

func (o Order) ports() (out []uint16, err error) {
	for _, r := range o.Ports {
		if r.First == 0 || r.Last < r.First {
			return nil, fmt.Errorf("send to ports %d-%d: that is no range of ports from 1 on", r.First, r.Last)
		}
		for p := int(r.First); p <= int(r.Last); p++ {
			out = append(out, uint16(p))
		}
	}
	if len(out) == 0 {
		out = []uint16{9}
	}
	return out, nil
}

// within is a random address of a prefix.
func within(rng *rand.Rand, p netip.Prefix) netip.Addr {
	b := p.Masked().Addr().AsSlice()
	for i := range b {
		random := byte(rng.Uint32())
		switch keep := p.Bits() - 8*i; {
		case keep <= 0:
			b[i] = random
		case keep < 8:
			b[i] |= random & (0xff >> keep)
		}
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}

// place is where an order is carried out, and what counts there.
type place struct {
	target   Target
	from, to netip.Addr
	where    string
	at       string
	mark     func() error // begins to count
	arrived  func() (int64, error)
	closers  []func()
}

func (p *place) close() {
	for i := len(p.closers) - 1; i >= 0; i-- {
		p.closers[i]()
	}
}

func (o Order) place() (*place, error) {
	if o.To.IsValid() {
		return onHost(o.To, o.Kind), nil
	}
	p := &place{}
	if err := p.pair(o.V6, o.Size); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// pair makes two namespaces joined by a polled wire; the far end drops and
// counts in the driver, or in the device's own counters where the kernel has
// no XDP.
func (p *place) pair(v6 bool, size int) error {
	var ns [2]*netns.Namespace
	for i := range ns {
		n, err := netns.New()
		if err != nil {
			return err
		}
		ns[i] = n
		p.closers = append(p.closers, n.Close)
	}
	w := netns.Between()
	w.Poll, w.MTU = true, max(size, 1500)
	if err := netns.Join(ns[0], ns[1], w); err != nil {
		return err
	}
	i := 0
	if v6 {
		i = 1
	}
	p.from, p.to = w.A.Addrs[i].Addr(), w.B.Addrs[i].Addr()
	p.where = "a pair of namespaces, joined by a wire"
	var err error
	if p.target, err = Inside(ns[0], w.A.Name); err != nil {
		return err
	}
	f, err := Attach(ns[1], w.B.Name, AtDriver, Every, nil)
	if err != nil {
		p.byDevice(ns[1], w.B.Name)
		p.at += ", for it cannot drop in the driver: " + err.Error()
		return nil
	}
	p.closers = append(p.closers, func() { _ = f.Close() }) // the namespace ends next
	p.at = "the far end's driver (XDP), where they are dropped"
	p.count(f.Dropped)
	return nil
}

// count takes a counter that only grows.
func (p *place) count(read func() (int64, error)) {
	var base int64
	p.mark = func() (err error) { base, err = read(); return err }
	p.arrived = func() (int64, error) {
		n, err := Settled(read)
		return n - base, err
	}
}

// Settled reads a counter until it stands still for a while: packets may be
// under way. It gives up after two seconds and takes what there is.
func Settled(read func() (int64, error)) (int64, error) {
	const still = 10 * time.Millisecond
	last, err := read()
	for since, end := time.Now(), time.Now().Add(2*time.Second); err == nil && time.Since(since) < still && time.Now().Before(end); time.Sleep(time.Millisecond) {
		var now int64
		if now, err = read(); now != last {
			last, since = now, time.Now()
		}
	}
	return last, err
}
