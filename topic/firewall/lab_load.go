package firewall

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"headroom/engine/netns"
	"headroom/engine/packet"
	"headroom/fail"
	"headroom/host"
	"headroom/probe/firewall"
)

// loadLimit bounds how long rules may take to load.
const loadLimit = 90 * time.Second

// load puts a row's rules, or its program, into the far namespace.
func (p *place) load(ctx context.Context, r *row, set []netip.Addr) error {
	if r.filter != nil {
		return p.attach(r.filter, set)
	}
	if r.runs != "" {
		return p.start(strings.ReplaceAll(r.runs, "DEVICE", p.device))
	}
	if len(r.rules) == 0 {
		return nil
	}
	words := make([]string, len(set))
	for i, a := range set {
		words[i] = a.String()
	}
	texts := make([]string, len(r.rules))
	for i, t := range r.rules {
		if _, err := host.FindProgram(t.argv[0]); err != nil {
			return fail.Hint(err, "apt-get install nftables iptables ipset")
		}
		texts[i] = strings.ReplaceAll(t.text(words), "DEVICE", p.device)
	}
	ctx, stop := context.WithTimeout(ctx, loadLimit)
	defer stop()
	if r.file {
		if err := firewall.StandIn(p.far, []byte(texts[0]), p.device); err != nil {
			return fmt.Errorf("load rules: %w", err)
		}
	}
	before := kernelMemory(p.machine)
	start := time.Now()
	for i, t := range r.rules {
		if _, err := p.far.Run(ctx, host.Cmd{Argv: t.argv, Stdin: strings.NewReader(texts[i])}, 1<<20); err != nil {
			return fmt.Errorf("load rules: %w", err)
		}
	}
	p.loaded = time.Since(start)
	if r.rules[0].argv[0] == "ipset" {
		p.memory = p.ipsetMemory(ctx)
		return nil
	}
	if grown := kernelMemory(p.machine) - before; len(set) >= 10_000 && before > 0 && grown > 0 {
		p.memory = grown // of fewer, what others do meanwhile is more
	}
	return nil
}

// start runs a shell line inside, with file systems of its own, until it says
// that it is ready. It ends with its standard input: with the place, or with
// us, however we end.
func (p *place) start(line string) error {
	if _, err := host.FindProgram("xdp-filter"); err != nil {
		return fail.Hint(err, "apt-get install xdp-tools")
	}
	in, hold, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("run a program inside: %w", err)
	}
	defer in.Close()
	out, tell, err := os.Pipe()
	if err != nil {
		hold.Close()
		return fmt.Errorf("run a program inside: %w", err)
	}
	defer out.Close()
	err = p.far.Do(func() error {
		x, err := host.Cmd{Argv: []string{"unshare", "--mount", "sh", "-c", line}, Stdin: in, Output: tell, Detach: true}.Start()
		if err != nil {
			hold.Close()
			return err
		}
		p.closers = append(p.closers, func() { hold.Close(); _ = x.Wait() }) // it was only to stay; what it says at the end is nothing to us
		return nil
	})
	tell.Close()
	if err != nil {
		return err
	}
	return ready(out)
}

// ready reads until a program says that it is.
func ready(out io.Reader) error {
	said := ""
	for b := make([]byte, 256); ; {
		n, err := out.Read(b)
		if said += string(b[:n]); strings.HasSuffix(said, "ready\n") {
			return nil
		}
		if err != nil || len(said) > 4096 {
			return fmt.Errorf("run a program inside: it said %q", said)
		}
	}
}

// ipsetMemory is what ipset says that its set takes; 0 if it does not say.
func (p *place) ipsetMemory(ctx context.Context) (n int64) {
	out, err := p.far.Run(ctx, host.Cmd{Argv: []string{"ipset", "list", "-terse", "s"}}, 1<<16)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(out)) {
		if v, ok := strings.CutPrefix(line, "Size in memory: "); ok {
			n, _ = strconv.ParseInt(strings.TrimSpace(v), 10, 64)
		}
	}
	return n
}

func (p *place) attach(f *filter, set []netip.Addr) error {
	spans := make([]packet.Span, len(set))
	for i, a := range set {
		spans[i] = packet.Span{First: a, Last: a}
	}
	start := time.Now()
	at, err := packet.Attach(p.far, p.device, f.at, f.how, spans)
	if err != nil {
		return err
	}
	p.loaded = time.Since(start)
	p.memory, p.count = at.Memory(), at.Dropped
	p.closers = append(p.closers, func() { _ = at.Close() }) // the namespace ends next
	return nil
}

// kernelMemory is what the kernel holds for itself, in bytes; 0 if it does not
// say.
func kernelMemory(r host.Reader) int64 {
	raw, err := r.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	sum := int64(0)
	for line := range strings.Lines(string(raw)) {
		f := strings.Fields(line)
		if len(f) < 2 || f[0] != "SUnreclaim:" && f[0] != "VmallocUsed:" && f[0] != "Percpu:" {
			continue
		}
		if n, err := strconv.ParseInt(f[1], 10, 64); err == nil {
			sum += n << 10
		}
	}
	return sum
}

// dropped counts at the rules: what the device took in and no protocol got.
func (p *place) dropped() (int64, error) {
	var n int64
	err := p.far.Do(func() error {
		took, err := packet.Took(p.machine, p.device)
		if err != nil {
			return err
		}
		c, err := packet.ReadSNMP()
		n = took - c["IpInDelivers"]
		return err
	})
	return n, err
}

// delivered counts what came to UDP: read, without a reader, or without room.
func (p *place) delivered() (n int64, err error) {
	err = p.far.Do(func() error {
		c, err := packet.ReadSNMP()
		n = c["UdpInDatagrams"] + c["UdpNoPorts"] + c["UdpInErrors"]
		return err
	})
	return n, err
}

// received counts what came to the IP layer, before any rule of iptables.
func (p *place) received() (n int64, err error) {
	err = p.far.Do(func() error {
		c, err := packet.ReadSNMP()
		n = c["IpInReceives"] + c["Ip6InReceives"]
		return err
	})
	return n, err
}

func (w *works) to() netip.Addr {
	if w.wire {
		return netns.Between().B.Addrs[0].Addr()
	}
	return netip.AddrFrom4([4]byte{127, 0, 0, 1})
}

// set is what a row's set holds; on a loopback the packets' one source is
// among it.
func (w *works) set(r *row) []netip.Addr {
	out := make([]netip.Addr, r.set)
	for i := range out {
		out[i] = member(i)
	}
	if r.set > 0 && !w.wire {
		out[r.set/2] = w.to()
	}
	return out
}

// member is the i-th address of a set: spread, from 20.0.0.0 on.
func member(i int) netip.Addr {
	n := uint32(20<<24) + uint32(i)*11
	return netip.AddrFrom4([4]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)})
}

// mix is what a row is flooded with. Over a wire the sources are spread over
// the whole set.
func (w *works) mix(r *row) (out []packet.Packet) {
	p := packet.Packet{Src: w.to(), Dst: w.to(), Proto: packet.UDP, SrcPort: 40000, DstPort: port, Size: w.size, Payload: []byte(r.text)}
	if !w.wire {
		return []packet.Packet{p}
	}
	n := sources
	if r.set > 0 {
		n = min(n, r.set)
	}
	for i := range n {
		p.Src = member(i * max(r.set/n, 1))
		out = append(out, p)
	}
	return out
}

// readFrom has a thread read from the port until the stop is called.
func readFrom(n *netns.Namespace, at netip.Addr, cpu int) (stop func(), err error) {
	var fd int
	err = n.Do(func() (err error) {
		if fd, err = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err != nil {
			return err
		}
		wait := unix.NsecToTimeval(int64(50 * time.Millisecond))
		if err = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wait); err == nil {
			err = unix.Bind(fd, &unix.SockaddrInet4{Addr: at.As4(), Port: port})
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("listen on port %d: %w", port, err)
	}
	end, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- packet.Pinned(cpu, func() error { return drain(fd, end) }) }()
	return func() {
		close(end)
		<-ended // reading ends with the place, whatever it met
		unix.Close(fd)
	}, nil
}

func drain(fd int, end chan struct{}) error {
	buf := make([]byte, 2048)
	for {
		select {
		case <-end:
			return nil
		default:
		}
		if _, err := unix.Read(fd, buf); err != nil && err != unix.EAGAIN && err != unix.EINTR {
			return err
		}
	}
}
