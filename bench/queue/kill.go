package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"headroom/queue"
)

// killed is what many kills of one kind came to.
type killed struct {
	Kind      string  `json:"kind"`
	Runs      int     `json:"kills"`
	Acked     int     `json:"acknowledged"`
	Taken     int     `json:"acknowledged_to_the_queue_by_readers"`
	Lost      int     `json:"acknowledged_and_lost"`
	Again     int     `json:"delivered_more_than_once"`
	Phantom   int     `json:"delivered_and_never_put"`
	Altered   int     `json:"delivered_and_altered"`
	SaidLost  uint64  `json:"said_to_be_lost_by_the_queue"`
	Left      int     `json:"left_at_the_end"`
	ReopenP50 float64 `json:"reopen_p50_seconds"`
	ReopenMax float64 `json:"reopen_max_seconds"`
}

func (k killed) String() string {
	return fmt.Sprintf("%s killed %d times: %d acknowledged, %d lost, %d delivered more than once, %d never put, %d altered; open again in %.0f ms (most %.0f ms)",
		k.Kind, k.Runs, k.Acked, k.Lost, k.Again, k.Phantom, k.Altered, 1000*k.ReopenP50, 1000*k.ReopenMax)
}

// What a child is told, by environment, so that a test can be one too.
const (
	childDir  = "HEADROOM_BENCH_QUEUE_DIR"
	childKind = "HEADROOM_BENCH_QUEUE_KIND"
	childRun  = "HEADROOM_BENCH_QUEUE_RUN"
)

// killMany starts a child over and over that puts and reads, and kills it after
// a random time; then it reads what is left and compares.
func killMany(ctx context.Context, self, dir, kind string, runs int) (killed, error) {
	k := killed{Kind: kind}
	at := filepath.Join(dir, "kill-"+kind)
	if err := os.MkdirAll(at, 0o700); err != nil {
		return k, err
	}
	defer os.RemoveAll(at)
	var reopen []float64
	for run := range runs {
		took, err := oneKill(ctx, self, at, kind, run)
		if err != nil {
			return k, fmt.Errorf("%s, run %d: %w", kind, run, err)
		}
		reopen = append(reopen, took)
		k.Runs++
	}
	slices.Sort(reopen)
	k.ReopenP50, k.ReopenMax = reopen[len(reopen)/2], reopen[len(reopen)-1]
	return k, k.count(ctx, at)
}

func oneKill(ctx context.Context, self, at, kind string, run int) (float64, error) {
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), childDir+"="+at, childKind+"="+kind, childRun+"="+strconv.Itoa(run))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	start := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || strings.TrimSpace(line) != "ready" {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return 0, fmt.Errorf("the child said %q, %w", line, err)
	}
	took := time.Since(start).Seconds()
	time.Sleep(time.Duration(rand.IntN(300)) * time.Millisecond)
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	return took, nil
}

// child puts from four producers and reads more slowly, writing down first
// what it tries, then what was acknowledged, and what it took.
func child(ctx context.Context, dir, kind, run string) error {
	r, err := strconv.ParseUint(run, 10, 32)
	if err != nil {
		return err
	}
	q, err := openers[kind](ctx, options(dir))
	if err != nil {
		return err
	}
	fmt.Println("ready")
	var wg sync.WaitGroup
	for p := range uint64(4) {
		wg.Go(func() {
			tried, acked := notes(dir, "tried", p), notes(dir, "acked", p)
			for i := uint64(0); ; i++ {
				n := r<<32 | p<<24 | i
				tried(n)
				if q.Put(ctx, payload(n)) == nil {
					acked(n)
				}
			}
		})
	}
	taken := notes(dir, "taken", 0)
	for {
		ms, err := q.Fetch(ctx, 1+rand.IntN(8))
		if err != nil {
			return err
		}
		for _, m := range ms {
			taken(check(m.Data()))
			if err := m.Ack(ctx); err != nil {
				return err
			}
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func options(dir string) queue.Options {
	return queue.Options{Dir: filepath.Join(dir, "queue"), SegmentBytes: 256 << 10}
}

// notes appends numbers to a file. A write is enough: the process is killed,
// not the machine.
func notes(dir, name string, p uint64) func(uint64) {
	f, err := os.OpenFile(filepath.Join(dir, fmt.Sprintf("%s-%d", name, p)), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		panic(err)
	}
	return func(n uint64) {
		if _, err := f.Write(binary.LittleEndian.AppendUint64(nil, n)); err != nil {
			panic(err)
		}
	}
}

func read(dir, name string) ([]uint64, error) {
	files, err := filepath.Glob(filepath.Join(dir, name+"-*"))
	var out []uint64
	for _, f := range files {
		raw, e := os.ReadFile(f)
		err = errors.Join(err, e)
		for ; len(raw) >= 8; raw = raw[8:] {
			out = append(out, binary.LittleEndian.Uint64(raw))
		}
	}
	return out, err
}

const altered = 1 << 63

func payload(n uint64) []byte {
	b := make([]byte, 8+n%3000)
	binary.LittleEndian.PutUint64(b, n)
	for i := range b[8:] {
		b[8+i] = byte(n) + byte(i)
	}
	return b
}

// check returns the number of a message, or altered.
func check(data []byte) uint64 {
	if len(data) < 8 {
		return altered
	}
	n := binary.LittleEndian.Uint64(data)
	if string(payload(n)) != string(data) {
		return altered
	}
	return n
}

// count reads what is left in the queue and compares with the notes.
func (k *killed) count(ctx context.Context, at string) error {
	times := map[uint64]int{}
	taken, err := read(at, "taken")
	if err != nil {
		return err
	}
	for _, n := range taken {
		times[n]++
	}
	k.Taken = len(taken)
	q, err := openers[k.Kind](ctx, options(at))
	if err != nil {
		return err
	}
	defer q.Close()
	for {
		wait, stop := context.WithTimeout(ctx, 2*time.Second)
		ms, err := q.Fetch(wait, 64)
		stop()
		if err != nil {
			break
		}
		for _, m := range ms {
			times[check(m.Data())]++
			k.Left++
			if err := m.Ack(ctx); err != nil {
				return err
			}
		}
	}
	s, err := q.Status(ctx)
	if err != nil {
		return err
	}
	k.SaidLost = s.Lost
	tried, err := read(at, "tried")
	if err != nil {
		return err
	}
	acked, err := read(at, "acked")
	if err != nil {
		return err
	}
	k.compare(times, tried, acked)
	return nil
}

func (k *killed) compare(times map[uint64]int, tried, acked []uint64) {
	known := map[uint64]bool{}
	for _, n := range tried {
		known[n] = true
	}
	k.Acked = len(acked)
	for _, n := range acked {
		if times[n] == 0 {
			k.Lost++
		}
	}
	for n, c := range times {
		switch {
		case n == altered:
			k.Altered += c
		case !known[n]:
			k.Phantom++
		case c > 1:
			k.Again++
		}
	}
}
