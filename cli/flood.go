package cli

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"headroom/engine/packet"
	"headroom/fail"
	"headroom/host"
	"headroom/report"
)

// flooding is what the flags of flood hold.
type flooding struct {
	order              packet.Order
	kind, method       string
	ports, spoof, rate string
}

func (a *app) flood() *cobra.Command {
	var f flooding
	c := &cobra.Command{
		Use:   "flood [LOOPBACK ADDRESS]",
		Short: "Send packets as fast as it goes, to the loopback or into namespaces of its own, and count what arrives",
		Long: `Without an address it makes two network namespaces, joined by a wire, sends from
one to the other, and counts at the far end, in the driver. Nothing of it has a
name or is left behind. With a loopback address (127.0.0.1, ::1) it sends
through a socket of this machine, past this machine's rules, to whatever
listens there.

It never sends to another machine, nor with a source that an answer could leave
the machine for; no flag changes that.

The ways to send: xdp (frames made by the kernel, on the pair of namespaces),
ring (memory shared with the kernel, likewise), mmsg (a socket, anywhere).
"headroom lab firewall" measures what a firewall's rules cost with it.

Exit status: 0 done; 1 it could not run; 2 usage, or an address that is not the
loopback; 130 interrupted (what was sent until then is printed).`,
		Example: `  headroom flood
  headroom flood --proto syn --spoof 10.0.0.0/8 --duration 10s
  headroom flood --size 1400 --rate 100k --method mmsg
  headroom flood 127.0.0.1 --ports 53 --count 100000 -o json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := f.read(args); err != nil {
				return fail.With(err, fail.Usage)
			}
			l := host.Open(host.Options{})
			defer l.Close()
			o, err := f.order.Run(c.Context(), l)
			if err != nil {
				return err
			}
			if err := a.print("Headroom: flood", report.Flood(o)); err != nil {
				return err
			}
			if c.Context().Err() != nil {
				return exit(fail.Interrupted, "interrupted")
			}
			return nil
		},
	}
	a.outputFlag(c)
	f.flags(c)
	return c
}

func (f *flooding) flags(c *cobra.Command) {
	l := c.Flags()
	l.StringVar(&f.kind, "proto", "udp", "what is sent: udp, syn (TCP segments that open connections) or icmp (echo requests)")
	l.IntVar(&f.order.Size, "size", 128, "bytes of a whole IP packet, headers included")
	l.StringVar(&f.ports, "ports", "9", "destination ports, used in turns: 53,1000-1999")
	l.StringVar(&f.spoof, "spoof", "", "take sources at random from these addresses: 10.0.0.0/8; on the loopback, of 127.0.0.0/8")
	l.StringVar(&f.rate, "rate", "", "packets per second: 5000, 100k, 1M (default: as fast as it goes)")
	l.DurationVar(&f.order.For, "duration", 0, "how long (default: 5s, unless --count is given)")
	l.Int64Var(&f.order.Count, "count", 0, "how many packets at most")
	l.StringVar(&f.method, "method", "auto", "how to send: auto, mmsg, ring or xdp")
	l.IntSliceVar(&f.order.CPUs, "cpus", nil, "CPUs that send, one thread on each: 0,1 (default: one thread, on any CPU)")
	l.BoolVar(&f.order.V6, "ipv6", false, "IPv6 between the namespaces")
	l.Uint64Var(&f.order.Seed, "seed", 0, "seed of what is random; the same seed sends the same")
}

// defaultFor is how long a flood lasts that is told neither time nor count.
const defaultFor = 5 * time.Second

// read turns words into the order. Errors are usage errors.
func (f *flooding) read(args []string) (err error) {
	o := &f.order
	o.Kind, o.Method = packet.Kind(f.kind), packet.Method(f.method)
	if len(args) > 0 {
		if o.To, err = netip.ParseAddr(args[0]); err != nil {
			return fail.Hint(fmt.Errorf("read address %q: it is none", args[0]), "write 127.0.0.1 or ::1, or nothing")
		}
	}
	if f.spoof != "" {
		if o.Spoof, err = netip.ParsePrefix(f.spoof); err != nil {
			return fail.Hint(fmt.Errorf("read --spoof %q: it is no prefix", f.spoof), "write for example 10.0.0.0/8")
		}
	}
	if o.Ports, err = readPorts(f.ports); err != nil {
		return err
	}
	if o.Rate, err = readRate(f.rate); err != nil {
		return err
	}
	switch {
	case o.Size < 0 || o.Size > 65535:
		return fmt.Errorf("read --size %d: an IP packet has up to 65535 bytes", o.Size)
	case o.For < 0 || o.Count < 0:
		return errors.New("read --duration and --count: they cannot be negative")
	case o.For == 0 && o.Count == 0:
		o.For = defaultFor
	}
	return nil
}

func readPorts(s string) (out []packet.Ports, err error) {
	for part := range strings.SplitSeq(s, ",") {
		first, last, ranged := strings.Cut(part, "-")
		if !ranged {
			last = first
		}
		a, err1 := strconv.ParseUint(first, 10, 16)
		b, err2 := strconv.ParseUint(last, 10, 16)
		if err1 != nil || err2 != nil || a == 0 || b < a {
			return nil, fail.Hint(fmt.Errorf("read --ports %q: %q is no port or range", s, part), "write for example 53,1000-1999")
		}
		out = append(out, packet.Ports{First: uint16(a), Last: uint16(b)})
	}
	return out, nil
}

// readRate reads "100k"; 0 for nothing.
func readRate(s string) (float64, error) {
	if s == "" {
		return 0, nil
	}
	factor := 1.0
	digits := s
	for suffix, by := range map[string]float64{"k": 1e3, "M": 1e6} {
		if d, ok := strings.CutSuffix(s, suffix); ok {
			digits, factor = d, by
		}
	}
	v, err := strconv.ParseFloat(digits, 64)
	if err != nil || !(v > 0) || v > 1e9 {
		return 0, fail.Hint(fmt.Errorf("read --rate %q: it is no number of packets per second", s), "write for example 5000, 100k or 1M")
	}
	return v * factor, nil
}
