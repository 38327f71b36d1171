package packet

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// xdpMD is struct xdp_md as BPF_PROG_RUN takes it.
type xdpMD struct{ Data, DataEnd, DataMeta, Ingress, Queue, Egress uint32 }

func (l *live) most() int { return liveRun }

func (l *live) send(n int) (taken, refused int, err error) {
	before, err := l.sent()
	if err != nil {
		return 0, 0, err
	}
	err = l.run(n)
	after, cerr := l.sent()
	if errors.Is(err, unix.EINTR) {
		err = nil
	}
	return int(after - before), 0, errors.Join(err, cerr)
}

// sendFor sends for d, or n packets if that is sooner, in as few calls as it
// takes, and returns how long it sent: the kernel ends a call that a signal
// interrupts. The caller has the thread to itself.
func (l *live) sendFor(ctx context.Context, d time.Duration, n int64) (taken int64, took time.Duration, err error) {
	start, whole := time.Now(), ctx
	if d > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithDeadline(ctx, start.Add(d))
		defer stop()
	}
	done := make(chan struct{})
	told := make(chan time.Time, 1)
	go func(tid int) { told <- interrupt(ctx, tid, done) }(unix.Gettid())
	// A thread that the machine kept waiting sends at least a little.
	for err == nil && (ctx.Err() == nil || taken == 0 && whole.Err() == nil) && (n < 0 || taken < n) {
		part := int64(liveRun) << 8
		if n >= 0 {
			part = min(part, n-taken)
		}
		var k int
		k, _, err = l.send(int(part))
		taken += int64(k)
	}
	close(done)
	took = (<-told).Sub(start)
	if taken > 0 && took <= 0 {
		took = time.Since(start)
	}
	return taken, took, err
}

// interrupt waits for the end of ctx and then signals the thread until done.
// It returns when sending ended.
func interrupt(ctx context.Context, tid int, done <-chan struct{}) time.Time {
	select {
	case <-done:
		return time.Now()
	case <-ctx.Done():
	}
	end := time.Now()
	for {
		_ = unix.Tgkill(unix.Getpid(), tid, unix.SIGURG) // which the runtime takes for a hint to it; the thread may be gone
		select {
		case <-done:
			return end
		case <-time.After(time.Millisecond):
		}
	}
}

func (l *live) sent() (uint64, error) {
	if l.at == nil {
		return 0, nil
	}
	var v next
	if err := l.at.Lookup(uint32(0), &v); err != nil {
		return 0, fmt.Errorf("read how many packets were sent: %w", err)
	}
	return v.Sent, nil
}

// testRun is the part of union bpf_attr that BPF_PROG_TEST_RUN takes.
type testRun struct {
	prog, retval          uint32
	sizeIn, sizeOut       uint32
	dataIn, dataOut       unsafe.Pointer
	repeat, duration      uint32
	ctxSizeIn, ctxSizeOut uint32
	ctxIn, ctxOut         unsafe.Pointer
	flags, cpu, batch     uint32
	_                     uint32
}

// progTestRun is BPF_PROG_TEST_RUN. The library's own call begins anew when it
// is interrupted, which is what ends ours.
const progTestRun = 10

func (l *live) run(n int) error {
	md := xdpMD{DataEnd: uint32(len(l.frame)), Ingress: uint32(l.device.Index)}
	attr := testRun{prog: uint32(l.prog.FD()), sizeIn: uint32(len(l.frame)), dataIn: unsafe.Pointer(&l.frame[0]), repeat: uint32(n),
		ctxSizeIn: uint32(unsafe.Sizeof(md)), ctxIn: unsafe.Pointer(&md), flags: unix.BPF_F_TEST_XDP_LIVE_FRAMES, batch: uint32(min(n, liveBatch))}
	_, _, e := unix.Syscall(unix.SYS_BPF, progTestRun, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
	runtime.KeepAlive(l)
	runtime.KeepAlive(&md)
	if e != 0 {
		return fmt.Errorf("run the program that fills in packets: %w", e)
	}
	return nil
}
