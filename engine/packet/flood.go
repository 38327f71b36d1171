package packet

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"headroom/fail"
)

// Method is a way to hand packets to the kernel.
type Method string

// The ways, from the slowest to the fastest.
const (
	// Auto takes the fastest that can send these packets there.
	Auto Method = "auto"
	// Mmsg sends through a UDP or raw socket with sendmmsg: the packets go the
	// way that a program's go, through routing and the rules for output.
	Mmsg Method = "mmsg"
	// Ring puts frames on a device from memory shared with the kernel
	// (AF_PACKET), past routing and the rules for output.
	Ring Method = "ring"
	// XDP has the kernel send frames from a program of ours (BPF_PROG_RUN with
	// live frames): no socket buffers are made. Needs Linux 5.18, a wire, and
	// packets of one size.
	XDP Method = "xdp"
)

// Flood is packets to be sent over and over.
type Flood struct {
	To     Target
	Mix    []Packet // sent in turns, each about as often as any other
	Method Method   // "" is Auto
	Rate   float64  // packets per second, of all threads together; 0: as fast as it goes
	// Count ends the flood after so many packets, For after so long from the
	// first packet on; whichever comes first. With neither it lasts until its
	// context ends.
	Count int64
	For   time.Duration
	// CPUs that send, one thread on each; none: one thread, on any CPU.
	CPUs []int
}

// Sent is what came of a flood, on the sending side. What arrived is counted
// where it arrives.
type Sent struct {
	Method  Method        `json:"method"`
	Packets int64         `json:"packets"` // that the kernel took
	Refused int64         `json:"refused"` // that it did not: no room, or a rule for output
	Took    time.Duration `json:"took_ns"`
}

// PerSecond is the packets that the kernel took per second.
func (s Sent) PerSecond() float64 {
	if s.Took <= 0 {
		return 0
	}
	return float64(s.Packets) / s.Took.Seconds()
}

// sender hands packets over from one thread.
type sender interface {
	// send hands over at most n more packets, n > 0. It returns how many the
	// kernel took and how many it refused.
	send(n int) (taken, refused int, err error)
	// most is the number of packets that one call should hand over.
	most() int
	// flush waits until what was taken has been sent. It returns how much was not.
	flush() (left int)
	close()
}

// Run sends. An end of ctx is not an error: it returns what was sent until
// then. A destination that leads anywhere but to the loopback or into
// namespaces of this program is refused.
func (f Flood) Run(ctx context.Context) (Sent, error) {
	raw, err := f.prepare()
	if err != nil {
		return Sent{}, fail.With(err, fail.Usage)
	}
	if err := f.To.enclosed(f.Mix); err != nil {
		return Sent{}, err
	}
	method, err := f.choose(raw)
	if err != nil {
		return Sent{}, err
	}
	cpus := f.CPUs
	if len(cpus) == 0 {
		cpus = []int{-1}
	}
	out := Sent{Method: method}
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex
		errs []error
	)
	var first, last time.Time // of all threads, once they are ready
	for i, cpu := range cpus {
		wg.Go(func() {
			w := worker{flood: f, raw: raw, method: method, cpu: cpu, rate: f.Rate / float64(len(cpus)), left: share(f.Count, i, len(cpus)), at: i * len(raw) / len(cpus)}
			err := f.To.do(func() error { return w.run(ctx) })
			mu.Lock()
			defer mu.Unlock()
			out.Packets, out.Refused = out.Packets+w.taken, out.Refused+w.refused
			if first.IsZero() || w.began.Before(first) {
				first = w.began
			}
			if w.ended.After(last) {
				last = w.ended
			}
			errs = append(errs, err)
		})
	}
	wg.Wait()
	out.Took = last.Sub(first)
	if err := errors.Join(errs...); err != nil {
		return out, fmt.Errorf("send packets by %s: %w", method, err)
	}
	return out, nil
}

// share is the part of count that falls to thread i of n; -1 for no limit.
func share(count int64, i, n int) int64 {
	if count == 0 {
		return -1
	}
	return count*int64(i+1)/int64(n) - count*int64(i)/int64(n)
}

// prepare builds the packets.
func (f Flood) prepare() ([][]byte, error) {
	switch {
	case len(f.Mix) == 0:
		return nil, errors.New("send packets: there is none to send")
	case f.Rate < 0 || f.Count < 0 || f.For < 0:
		return nil, fmt.Errorf("send packets: rate %g, count %d and duration %s cannot be negative", f.Rate, f.Count, f.For)
	}
	raw := make([][]byte, len(f.Mix))
	for i, p := range f.Mix {
		var err error
		if raw[i], err = p.Bytes(); err != nil {
			return nil, err
		}
	}
	return raw, nil
}

// choose takes the method: the one asked for, or the fastest there is.
func (f Flood) choose(raw [][]byte) (Method, error) {
	var why error // that live frames cannot be sent
	if err := f.To.do(func() error { why = liveWhy(f.To.device, raw); return nil }); err != nil {
		return "", err
	}
	switch f.Method {
	case "", Auto:
		switch {
		case f.To.host || f.To.device.Name == "lo":
			return Mmsg, nil
		case why == nil && f.Rate == 0:
			return XDP, nil
		}
		return Ring, nil
	case Mmsg:
		return Mmsg, nil
	case Ring:
		if f.To.host {
			return "", onlySocket(Ring)
		}
		return Ring, nil
	case XDP:
		if f.To.host {
			return "", onlySocket(XDP)
		}
		if why != nil {
			return "", fail.Hint(fmt.Errorf("send packets by xdp: %w", why), "--method auto takes the fastest way that there is")
		}
		return XDP, nil
	}
	return "", fail.With(fmt.Errorf("send packets: there is no method %q: auto, mmsg, ring or xdp", f.Method), fail.Usage)
}

func onlySocket(m Method) error {
	return fail.With(fail.Hint(fmt.Errorf("send packets by %s: on the machine's own loopback they are sent through a socket only", m), "--method mmsg"), fail.Usage)
}

// worker is one sending thread.
type worker struct {
	flood          Flood
	raw            [][]byte
	method         Method
	cpu            int     // -1: any
	rate           float64 // 0: flat out
	left           int64   // -1: no limit
	at             int     // where in the mix it begins
	taken, refused int64
	began, ended   time.Time // of sending
}

func (w *worker) run(ctx context.Context) error {
	w.began, w.ended = time.Now(), time.Now()
	if w.left == 0 {
		return nil
	}
	if w.cpu >= 0 {
		back, err := pin(w.cpu)
		if err != nil {
			return err
		}
		defer back()
	}
	s, err := w.open()
	if err != nil {
		return err
	}
	if l, ok := s.(*live); ok && w.rate == 0 {
		defer s.close()
		var took time.Duration
		w.began = time.Now()
		w.taken, took, err = l.sendFor(ctx, w.flood.For, w.left)
		w.ended = w.began.Add(took)
		return err
	}
	defer func() {
		left := int64(s.flush())
		w.taken, w.refused = w.taken-left, w.refused+left
		w.ended = time.Now()
		s.close()
	}()
	w.began = time.Now()
	for ctx.Err() == nil && w.left != 0 {
		since := time.Since(w.began)
		if w.flood.For > 0 && since >= w.flood.For && w.taken+w.refused > 0 {
			return nil
		}
		n := w.due(s, since)
		if n == 0 {
			w.rest()
			continue
		}
		taken, refused, err := s.send(n)
		w.taken, w.refused = w.taken+int64(taken), w.refused+int64(refused)
		if w.left > 0 {
			w.left = max(w.left-int64(taken+refused), 0)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// due is how many packets are to be sent now.
func (w *worker) due(s sender, since time.Duration) int {
	n := int64(s.most())
	if w.rate > 0 {
		n = min(n, int64(w.rate*since.Seconds())+1-w.taken-w.refused)
	}
	if w.left > 0 {
		n = min(n, w.left)
	}
	return int(max(n, 0))
}

// rest waits until the next packet is due, at most 20 ms so that the end of
// ctx is seen, and at least long enough for some packets to be due together.
func (w *worker) rest() {
	next := time.Duration(float64(w.taken+w.refused) / w.rate * float64(time.Second))
	wait := min(max(next-time.Since(w.began), 50*time.Microsecond), 20*time.Millisecond)
	ts := unix.NsecToTimespec(int64(wait))
	_ = unix.Nanosleep(&ts, nil) // a signal only ends the rest early
}

func (w *worker) open() (sender, error) {
	switch w.method {
	case Ring:
		return openRing(w.flood.To.device, w.raw, w.at)
	case XDP:
		return openLive(w.flood.To.device, w.raw, w.at)
	}
	return openMmsg(w.flood, w.raw, w.at)
}

// Pinned runs f with a thread of its own on one CPU.
func Pinned(cpu int, f func() error) error {
	back, err := pin(cpu)
	if err != nil {
		return err
	}
	defer back()
	return f()
}

// allowed lists the CPUs of a set: "0,1,3".
func allowed(set unix.CPUSet) string {
	var out []string
	for cpu := range len(set) * 64 {
		if set.IsSet(cpu) {
			out = append(out, strconv.Itoa(cpu))
		}
	}
	return strings.Join(out, ",")
}

// pin binds the calling thread, which the caller has to itself, to a CPU.
func pin(cpu int) (back func(), err error) {
	var old, now unix.CPUSet
	if err := unix.SchedGetaffinity(0, &old); err != nil {
		return nil, fmt.Errorf("read which CPUs a thread may use: %w", err)
	}
	now.Set(cpu)
	runtime.LockOSThread()
	if err := unix.SchedSetaffinity(0, &now); err != nil {
		runtime.UnlockOSThread()
		return nil, fail.With(fail.Hint(fmt.Errorf("bind a thread to CPU %d: %w", cpu, err), "this process may use the CPUs %s", allowed(old)), fail.Usage)
	}
	return func() {
		if unix.SchedSetaffinity(0, &old) == nil {
			runtime.UnlockOSThread() // else the thread ends with its goroutine
		}
	}, nil
}
