// Command agent measures what watching a machine costs: `headroom agent` with
// and without a PostgreSQL server, beside node_exporter scraped as often, all
// three at once, so that they meet the same conditions. CPU comes from the
// kernel's account of each process' threads. It writes a result file.
package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"headroom/host"
	"headroom/metric"
	"headroom/pglocal"
)

// result is the file; times in seconds, memory in bytes.
type result struct {
	When     string  `json:"when"`
	CPUs     int     `json:"cpus"`
	Load     string  `json:"load_average_at_end"`
	Interval float64 `json:"interval_seconds"`
	Block    float64 `json:"block_seconds"`
	Arms     []*arm  `json:"arms"`
}

// arm is one process; a block is a stretch of time in which all are measured.
type arm struct {
	Name    string    `json:"name"`
	CPU     []float64 `json:"cpu_seconds_by_block"`
	Samples []int64   `json:"samples_by_block"`
	RSS     []int64   `json:"rss_bytes_by_block"`
	Peak    int64     `json:"peak_rss_bytes"`

	pid      int
	received atomic.Int64
	cpu      float64
	samples  int64
	after    func() // ends it and removes what it left
}

func main() {
	bin := flag.String("bin", "bin/headroom", "the program")
	out := flag.String("out", "", "result file")
	blocks := flag.Int("blocks", 10, "blocks")
	block := flag.Duration("block", time.Minute, "length of a block")
	flag.Parse()
	if err := run(*bin, *out, *blocks, *block); err != nil {
		log.Fatal(err)
	}
}

// interval is how often both read; ours is fixed.
const interval = 10 * time.Second

func run(bin, out string, blocks int, block time.Duration) error {
	bin, err := filepath.Abs(bin)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	s, err := pglocal.Start(ctx, pglocal.Options{Name: "agent bench"})
	if err != nil {
		return err
	}
	defer func() { _ = s.Stop() }()
	r := result{When: time.Now().UTC().Format(time.RFC3339), Interval: interval.Seconds(), Block: block.Seconds()}
	for _, a := range []struct {
		name string
		dsn  string
	}{{"headroom agent, machine only", ""}, {"headroom agent, machine and one PostgreSQL server", s.DSN()}} {
		one, err := startAgent(bin, a.name, a.dsn)
		if err != nil {
			return err
		}
		defer one.after()
		r.Arms = append(r.Arms, one)
	}
	node, err := startNode(ctx)
	if err != nil {
		return err
	}
	defer node.after()
	r.Arms = append(r.Arms, node)
	time.Sleep(2 * interval) // start-up and discovery are over
	for range blocks {
		if err := r.measure(block); err != nil {
			return err
		}
	}
	return r.write(out)
}

// startAgent runs an agent that ships to a receiver of its own.
func startAgent(bin, name, dsn string) (*arm, error) {
	a := &arm{Name: name}
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	go func() { _ = http.Serve(l, http.HandlerFunc(a.receive)) }()
	dir, err := os.MkdirTemp("", "agentbench")
	if err != nil {
		return nil, err
	}
	a.after = func() { _ = os.RemoveAll(dir) }
	argv := []string{bin, "agent", "--to", "http://" + l.Addr().String()}
	if dsn != "" {
		argv = append(argv, "--db", dsn)
	}
	return a, a.start(argv, "HEADROOM_STATE="+dir, "HEADROOM_TOKEN=x")
}

// start runs the arm's process until after is called.
func (a *arm) start(argv []string, env ...string) error {
	x, err := host.Cmd{Argv: argv, Env: env}.Start()
	if err != nil {
		return err
	}
	a.pid = x.Process.Pid
	clean := a.after
	a.after = func() {
		_ = x.Process.Kill()
		_ = x.Wait() // killed: its status tells nothing
		if clean != nil {
			clean()
		}
	}
	return nil
}

// receive counts points as `headroom up` would get them.
func (a *arm) receive(w http.ResponseWriter, r *http.Request) {
	if strings.HasSuffix(r.URL.Path, "/state") { // what the host tells of itself
		_, _ = io.Copy(io.Discard, r.Body) // a sender that has gone is no matter
		fmt.Fprint(w, `{"taken":true}`)
		return
	}
	in := bufio.NewReader(r.Body)
	var d metric.Decoder
	for {
		n, err := binary.ReadUvarint(in)
		if errors.Is(err, io.EOF) {
			return
		}
		raw := make([]byte, min(n, 1<<20))
		if _, err := io.ReadFull(in, raw); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		b, err := d.Decode(raw)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		a.received.Add(int64(b.Len()))
	}
}

// startNode runs node_exporter and scrapes it.
func startNode(ctx context.Context) (*arm, error) {
	a := &arm{Name: "prometheus-node-exporter, scraped"}
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	addr := l.Addr().String()
	l.Close()
	if err := a.start([]string{"prometheus-node-exporter", "--web.listen-address=" + addr, "--log.level=error"}); err != nil {
		return nil, fmt.Errorf("%w (apt-get install prometheus-node-exporter)", err)
	}
	go func() {
		for tick := time.NewTicker(interval); ; <-tick.C {
			if n, err := scrape(ctx, "http://"+addr+"/metrics"); err == nil {
				a.received.Add(n)
			} else if ctx.Err() != nil {
				return
			}
		}
	}()
	return a, nil
}

func scrape(ctx context.Context, url string) (n int64, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() {
		if l := lines.Text(); l != "" && l[0] != '#' {
			n++
		}
	}
	return n, lines.Err()
}

// measure notes what each arm used in one block.
func (r *result) measure(block time.Duration) error {
	for _, a := range r.Arms {
		cpu, err := used(a.pid)
		if err != nil {
			return err
		}
		a.cpu, a.samples = cpu, a.received.Load()
	}
	time.Sleep(block)
	for _, a := range r.Arms {
		cpu, err := used(a.pid)
		if err != nil {
			return err
		}
		now, peak, err := memory(a.pid)
		if err != nil {
			return err
		}
		a.CPU, a.Samples, a.RSS, a.Peak = append(a.CPU, cpu-a.cpu), append(a.Samples, a.received.Load()-a.samples), append(a.RSS, now), peak
	}
	return nil
}

// used is the CPU time of all threads of a process, in seconds.
func used(pid int) (float64, error) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil || len(files) == 0 {
		return 0, fmt.Errorf("read the CPU time of process %d: it has ended (%w)", pid, err)
	}
	sum := 0.0
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			continue // a thread that ended
		}
		ns, _, _ := strings.Cut(string(b), " ")
		n, err := strconv.ParseUint(ns, 10, 64)
		if err != nil {
			return 0, err
		}
		sum += float64(n) / 1e9
	}
	return sum, nil
}

func memory(pid int) (now, peak int64, err error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) == 3 && (f[0] == "VmRSS:" || f[0] == "VmHWM:") {
			n, err := strconv.ParseInt(f[1], 10, 64)
			if err != nil {
				return 0, 0, err
			}
			if f[0] == "VmRSS:" {
				now = n << 10
			} else {
				peak = n << 10
			}
		}
	}
	return now, peak, nil
}

func (r *result) write(out string) error {
	load, _ := os.ReadFile("/proc/loadavg")
	r.Load = strings.TrimSpace(string(load))
	stat, _ := os.ReadFile("/proc/stat")
	r.CPUs = strings.Count(string(stat), "\ncpu")
	for _, a := range r.Arms {
		var share, each []float64
		for i, c := range a.CPU {
			share = append(share, c/r.Block)
			each = append(each, c/float64(max(a.Samples[i], 1)))
		}
		slices.Sort(share)
		slices.Sort(each)
		fmt.Printf("%s: %.3f %% of one core (%.3f to %.3f), %.1f µs CPU for each sample, %d samples a round, memory %.1f MiB, peak %.1f\n", a.Name,
			100*share[len(share)/2], 100*share[0], 100*share[len(share)-1], 1e6*each[len(each)/2],
			a.Samples[len(a.Samples)/2]*int64(interval.Seconds())/int64(r.Block), float64(a.RSS[len(a.RSS)-1])/(1<<20), float64(a.Peak)/(1<<20))
	}
	if out == "" {
		return nil
	}
	raw, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(out, append(raw, '\n'), 0o644)
}
