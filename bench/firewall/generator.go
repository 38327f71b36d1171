package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"headroom/engine/netns"
	"headroom/engine/packet"
	"headroom/fail"
	"headroom/host"
	"headroom/stats"
)

// The generators, ours first.
const (
	ours          = "headroom, xdp"
	xdpTrafficgen = "xdp-trafficgen"
)

var trafgens = []string{"trafgen, dropped by XDP", "trafgen, dropped by nft"}

// generator is what each way to make packets brings to the far end of a wire
// from one core. Where XDP drops there, another core does; the netdev hook runs
// on the core that sends.
type generator struct {
	Seconds float64
	Rates   map[string][]float64 // packets per second, round by round
	Median  map[string]float64
	Missing map[string]string `json:",omitempty"` // why a peer did not run
}

// best compares an arm with the best of others; false if none of them ran.
func (g generator) best(arm string, peers ...string) (stats.Comparison, bool) {
	best := ""
	for _, p := range peers {
		if g.Median[p] > g.Median[best] {
			best = p
		}
	}
	return ratio(g.Rates[arm], g.Rates[best])
}

// way is one generator on one kind of far end.
type way struct {
	name  string
	drop  string // "xdp" or "nft"
	start func(ctx context.Context, s *site) error
}

// site is a wire whose far end drops and counts.
type site struct {
	near, far *netns.Namespace
	count     func() (int64, error)
	cpu       int
	dir       string
	close     []func()
}

func ways() []way {
	flood := func(m packet.Method, many int) func(context.Context, *site) error {
		return func(ctx context.Context, s *site) error {
			to, err := packet.Inside(s.near, "veth0")
			if err != nil {
				return err
			}
			var mix []packet.Packet
			for i := range many {
				mix = append(mix, packet.Packet{Src: netip.MustParseAddr("10.99.0.1"), Dst: netip.MustParseAddr("10.99.0.2"), Proto: packet.UDP, SrcPort: 40000, DstPort: uint16(1000 + i), Size: size})
			}
			_, err = packet.Flood{To: to, Mix: mix, Method: m, CPUs: []int{s.cpu}}.Run(ctx)
			return err
		}
	}
	return []way{
		{ours, "xdp", flood(packet.XDP, 1)},
		{"headroom, xdp, 1024 different", "xdp", flood(packet.XDP, 1024)},
		{"headroom, ring, dropped by XDP", "xdp", flood(packet.Ring, 1)},
		{"headroom, ring, dropped by nft", "nft", flood(packet.Ring, 1)},
		{"headroom, mmsg, dropped by nft", "nft", flood(packet.Mmsg, 1)},
		{trafgens[0], "xdp", trafgen},
		{trafgens[1], "nft", trafgen},
		{xdpTrafficgen, "xdp", trafficgen},
	}
}

// size is that of the IP packets, as S8 had them.
const size = 128

// trafgen sends the same packets, by its own memory-mapped ring, past the
// queueing disciplines.
func trafgen(ctx context.Context, s *site) error {
	cfg := filepath.Join(s.dir, "trafgen.cfg")
	text := fmt.Sprintf("{ eth(da=02:00:00:99:00:02, sa=02:00:00:99:00:01), ipv4(sa=10.99.0.1, da=10.99.0.2), udp(sp=40000, dp=1000), fill(0, %d) }\n", size-28)
	if err := os.WriteFile(cfg, []byte(text), 0o600); err != nil {
		return err
	}
	return s.run(ctx, "trafgen", "-i", cfg, "-o", "veth0", "-P", "1", "-n", "0", "--no-sock-mem", "-t", "0ns")
}

// trafficgen sends UDP over IPv6, all it can, of the smallest size.
func trafficgen(ctx context.Context, s *site) error {
	return s.run(ctx, "xdp-trafficgen", "udp", "-m", "02:00:00:99:00:02", "-M", "02:00:00:99:00:01", "-a", "fd00:99::2", "-A", "fd00:99::1", "-t", "1", "veth0")
}

// run runs a peer on the site's CPU until the context ends.
func (s *site) run(ctx context.Context, argv ...string) error {
	if _, err := host.FindProgram(argv[0]); err != nil {
		return err
	}
	_, err := s.near.Run(ctx, host.Cmd{Argv: append([]string{"taskset", "-c", strconv.Itoa(s.cpu)}, argv...)}, 1<<16)
	if ctx.Err() != nil {
		return nil // it was told to stop
	}
	return errors.Join(err, fmt.Errorf("%s stopped by itself", argv[0]))
}

// takes is the CPU that takes in what another sends.
func takes(cpu int) int { return (cpu + 1) % runtime.NumCPU() }

// open makes a wire.
func open(ctx context.Context, drop string, cpu int) (s *site, err error) {
	s = &site{cpu: cpu}
	defer func() {
		if err != nil {
			s.end()
		}
	}()
	if s.dir, err = os.MkdirTemp("", "headroom-bench"); err != nil {
		return s, err
	}
	s.close = append(s.close, func() { os.RemoveAll(s.dir) })
	for _, n := range []**netns.Namespace{&s.near, &s.far} {
		if *n, err = netns.New(); err != nil {
			return s, err
		}
		s.close = append(s.close, (*n).Close)
	}
	w := netns.Between()
	w.Poll = drop == "xdp"
	if err := netns.Join(s.near, s.far, w); err != nil {
		return s, err
	}
	if drop == "xdp" {
		f, err := packet.Attach(s.far, "veth0", packet.AtDriver, packet.Every, nil)
		if err != nil {
			return s, err
		}
		if _, err := s.far.PollOn("veth0", takes(cpu)); err != nil {
			return s, err
		}
		s.count = f.Dropped
		s.close = append(s.close, func() { f.Close() })
		return s, nil
	}
	rules := "table netdev t { chain c { type filter hook ingress device veth0 priority 0; policy accept; counter drop; }; }\n"
	if _, err := s.far.Run(ctx, host.Cmd{Argv: []string{"nft", "-f", "-"}, Stdin: strings.NewReader(rules)}, 1<<12); err != nil {
		return s, err
	}
	l := host.Open(host.Options{})
	s.count = func() (n int64, err error) {
		err = s.far.Do(func() error {
			n, err = packet.Took(l, "veth0")
			return err
		})
		return n, err
	}
	return s, nil
}

func (s *site) end() {
	for _, f := range slices.Backward(s.close) {
		f()
	}
}

// warm is how long a generator runs before it is measured: programs start.
const warm = 400 * time.Millisecond

// turn measures one way once.
func turn(ctx context.Context, w way, cpu int, d time.Duration) (float64, error) {
	s, err := open(ctx, w.drop, cpu)
	if err != nil {
		return 0, err
	}
	defer s.end()
	run, stop := context.WithTimeout(ctx, warm+d+5*time.Second)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- w.start(run, s) }()
	select {
	case err := <-ended:
		return 0, err
	case <-time.After(warm):
	}
	from, err := s.count()
	start := time.Now()
	time.Sleep(d)
	to, err2 := s.count()
	took := time.Since(start)
	stop()
	if err := errors.Join(err, err2, <-ended); err != nil {
		return 0, err
	}
	return float64(to-from) / took.Seconds(), nil
}

// generators has all ways take turns in random order.
func generators(ctx context.Context, rounds int, d time.Duration) (generator, error) {
	g := generator{Seconds: d.Seconds(), Rates: map[string][]float64{}, Median: map[string]float64{}, Missing: map[string]string{}}
	all, rng := ways(), rand.New(rand.NewPCG(1, 2))
	for round := -1; round < rounds; round++ { // the first does not count
		rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		for _, w := range all {
			if g.Missing[w.name] != "" {
				continue
			}
			rate, err := turn(ctx, w, 0, d)
			if ctx.Err() != nil {
				return g, context.Cause(ctx)
			}
			if err == nil && rate == 0 {
				err = errors.New("nothing arrived")
			}
			if err != nil && (round < 0 || errors.Is(err, fail.ErrAbsent)) {
				g.Missing[w.name] = err.Error()
				continue
			}
			if err != nil {
				return g, fmt.Errorf("%s: %w", w.name, err)
			}
			if round >= 0 {
				g.Rates[w.name] = append(g.Rates[w.name], rate)
			}
		}
		fmt.Fprintf(os.Stderr, "generators, round %d of %d\n", round+1, rounds)
	}
	for name, v := range g.Rates {
		s := slices.Sorted(slices.Values(v))
		g.Median[name] = s[len(s)/2]
	}
	return g, nil
}
