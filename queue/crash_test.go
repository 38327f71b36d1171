package queue

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"
	"time"
)

func onDouble(t testing.TB, d *double) (*log, error) {
	o := Options{SegmentBytes: 700, Lease: time.Hour, MinFree: -1}.WithDefaults()
	dir := t.TempDir()
	return openLog(context.Background(), o, d, newDeadBox(dir+"/dead", 1<<20), newQuarantine(dir+"/quarantine"), pace{0, time.Millisecond})
}

func text(n uint64) []byte {
	b := bytes.Repeat([]byte(fmt.Sprintf("%d HQF1 ", n)), 5+int(n*37%60))
	return append(binary.LittleEndian.AppendUint64(nil, n), b...)
}

// history is what a producer and a consumer were told.
type history struct {
	mu      sync.Mutex
	acked   map[uint64]bool // Put returned nil
	unknown map[uint64]bool // Put returned an error
	taken   map[uint64]bool // Ack returned nil
}

// work puts 24 messages from three producers and takes every second one.
func work(l *log, h *history, retry bool) {
	ctx, stop := context.WithTimeout(context.Background(), 20*time.Second)
	defer stop()
	var wg sync.WaitGroup
	for p := range uint64(3) {
		wg.Go(func() {
			for i := range uint64(8) {
				n := p*8 + i
				err := l.Put(ctx, text(n))
				for ; err != nil && retry; err = l.Put(ctx, text(n)) {
					h.note(h.unknown, n)
					time.Sleep(time.Millisecond)
				}
				if err != nil {
					h.note(h.unknown, n)
					return
				}
				h.note(h.acked, n)
				if i%2 == 1 {
					h.takeOne(ctx, l)
				}
			}
		})
	}
	wg.Wait()
}

func (h *history) note(where map[uint64]bool, n uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	where[n] = true
}

func (h *history) takeOne(ctx context.Context, l *log) {
	ctx, stop := context.WithTimeout(ctx, 10*time.Millisecond)
	defer stop()
	ms, err := l.Fetch(ctx, 1)
	if err != nil {
		return
	}
	n := binary.LittleEndian.Uint64(ms[0].Data())
	if ms[0].Ack(ctx) == nil {
		h.note(h.taken, n)
	}
}

// check reads all that is left and says what is wrong.
func (h *history) check(l *log, exact bool) error {
	seen := map[uint64]int{}
	for tries := 0; l.left() > 0 && tries < 200; {
		ctx, stop := context.WithTimeout(context.Background(), 20*time.Millisecond)
		ms, err := l.Fetch(ctx, 100)
		stop()
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
		if err != nil {
			tries++
		}
		for _, m := range ms {
			n := binary.LittleEndian.Uint64(m.Data())
			if !bytes.Equal(m.Data(), text(n)) || !h.acked[n] && !h.unknown[n] {
				return fmt.Errorf("message %d was never put so", n)
			}
			if err := m.Ack(context.Background()); err != nil {
				return err
			}
			seen[n]++
		}
	}
	for n := range h.acked {
		switch {
		case seen[n] == 0 && !h.taken[n]:
			return fmt.Errorf("message %d was acknowledged and is lost; notes: %v", n, l.notes.List())
		case seen[n] > 1 && !h.unknown[n], exact && seen[n] > 0 && h.taken[n] && !h.unknown[n]:
			return fmt.Errorf("message %d came %d times", n, seen[n])
		}
	}
	return nil
}

func (l *log) left() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.waiting()
}

// mayComeAgain is what is known once all was read: nothing need be there, and
// what was taken may come again, for the note of that may be what failed.
func (h *history) mayComeAgain() *history {
	later := newHistory()
	for _, known := range []map[uint64]bool{h.acked, h.unknown} {
		for n := range known {
			later.unknown[n] = true
		}
	}
	return later
}

func newHistory() *history {
	return &history{acked: map[uint64]bool{}, unknown: map[uint64]bool{}, taken: map[uint64]bool{}}
}

var rounds = flag.Int("queue.rounds", 3, "how often the machine is stopped at each operation")

// TestPowerLoss stops the machine at every operation that changes the disk
// and opens what is left: with all that was not synced gone, kept, or torn.
func TestPowerLoss(t *testing.T) {
	t.Parallel()
	states := 0
	for round := range *rounds {
		for at := 1; ; at++ {
			d := newDouble(t)
			d.crashAt = at
			h := newHistory()
			l, err := onDouble(t, d)
			if err == nil {
				work(l, h, false)
				_ = l.Close()
			}
			for _, how := range []string{"gone", "kept", "torn", "torn", "torn"} {
				states++
				again(t, how != "torn", h, fmt.Sprintf("operation %d, %s", at, how), d.after(how, rand.New(rand.NewPCG(uint64(round), uint64(states)))))
			}
			if d.ops < at {
				break
			}
		}
	}
	t.Logf("%d states opened", states)
	if states < 200 {
		t.Errorf("only %d states", states)
	}
}

// again opens what a crash left, checks, and uses it once more. Where nothing
// is torn, no message may be said to be lost.
func again(t *testing.T, quiet bool, h *history, when string, left *double) {
	t.Helper()
	l, err := onDouble(t, left)
	if err != nil {
		t.Fatalf("%s: %v", when, err)
	}
	if err := h.check(l, false); err != nil {
		t.Fatalf("%s: %v", when, err)
	}
	if quiet && l.lost.Load() > 0 {
		t.Fatalf("%s: %d messages are said to be lost: %v", when, l.lost.Load(), l.notes.List())
	}
	for n := range uint64(3) {
		if err := l.Put(t.Context(), text(n)); err != nil {
			t.Fatalf("%s: put afterwards: %v", when, err)
		}
	}
	second := newHistory()
	second.acked = map[uint64]bool{0: true, 1: true, 2: true}
	if err := second.check(l, true); err != nil {
		t.Fatalf("%s: afterwards: %v", when, err)
	}
	if err := l.Close(); err != nil {
		t.Fatalf("%s: close: %v", when, err)
	}
}

// TestFailedOperation lets each operation fail once: nothing acknowledged is
// lost, and the queue goes on by itself. The disk's double fails the test if a
// file is touched again after its sync failed.
func TestFailedOperation(t *testing.T) {
	t.Parallel()
	for _, failure := range []error{syscall.EIO, syscall.ENOSPC, syscall.EIO, syscall.ENOSPC} {
		for at := 3; ; at++ {
			d := newDouble(t)
			l, err := onDouble(t, d)
			if err != nil {
				t.Fatal(err)
			}
			d.mu.Lock()
			d.failAt, d.failure = at, failure
			d.mu.Unlock()
			h := newHistory()
			work(l, h, true)
			if len(h.acked) != 24 {
				t.Fatalf("operation %d: %v: only %d messages were taken in the end", at, failure, len(h.acked))
			}
			if len(h.unknown) > 0 && len(l.notes.List()) == 0 {
				t.Errorf("operation %d: %v: nothing was said", at, failure)
			}
			if at%2 == 0 { // read now, and use what is left after a power loss
				if err := h.check(l, true); err != nil {
					t.Fatalf("operation %d: %v: %v", at, failure, err)
				}
				h = h.mayComeAgain()
			}
			_ = l.Close()
			for _, how := range []string{"gone", "kept"} {
				again(t, false, h, fmt.Sprintf("after %v at operation %d, %s", failure, at, how), d.after(how, rand.New(rand.NewPCG(1, 1))))
			}
			if d.ops < at {
				break
			}
		}
	}
}
