// Command stateless makes rule sets by chance, converts each to one without
// connection tracking, and has the kernel of this machine compare the two.
//
//	go run ./bench/stateless -n 1000 -out bench/results/stateless-DATE.json
//
// Needs root, nft and iptables; all happens in network namespaces.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"headroom/engine/fwproof"
	"headroom/engine/rulegen"
	"headroom/engine/ruleset"
	"headroom/engine/stateless"
)

// result is what a run writes.
type result struct {
	Kind          string    `json:"kind"` // "stateless"
	When          time.Time `json:"when"`
	Kernel        string    `json:"kernel"`
	Cores         int       `json:"cores"`
	Seed          uint64    `json:"seed"`
	RuleSets      int       `json:"rule_sets"`
	IPTables      int       `json:"iptables"`  // of them
	IP6Tables     int       `json:"ip6tables"` // of them
	NFT           int       `json:"nft"`       // of them
	Rules         int       `json:"rules"`
	Conversations int       `json:"conversations"`
	Packets       int       `json:"packets"`
	Undeliverable int       `json:"undeliverable"`
	Accepted      int       `json:"accepted"`
	Unexpected    int       `json:"unexpected"`
	Failed        []failure `json:"failed"` // rule sets with unexpected verdicts, or that could not be converted
	// Explained is how many packets of each kind of difference there were.
	Explained map[string]int `json:"explained"`
	Seconds   float64        `json:"seconds"`
}

type failure struct {
	Set        int    `json:"set"`
	Tool       string `json:"tool"`
	Text       string `json:"text"`
	Why        string `json:"why"`
	Unexpected int    `json:"unexpected"`
}

func main() {
	n := flag.Int("n", 1000, "rule sets")
	seed := flag.Uint64("seed", 1, "what the choices begin with")
	jobs := flag.Int("jobs", runtime.NumCPU(), "rule sets at a time")
	from := flag.Int("from", 0, "number of the first")
	flows := flag.Int("flows", 1500, "flows tried on each at most; each is several packets")
	only := flag.String("only", "", "numbers of rule sets, with commas: these instead of all")
	out := flag.String("out", "-", "result file; - is standard output")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, sets(*from, *n, *only), *seed, *jobs, *flows, *out); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, which []int, seed uint64, jobs, flows int, out string) error {
	kernel, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return err
	}
	r := &result{Kind: "stateless", When: time.Now().UTC(), Kernel: strings.TrimSpace(string(kernel)), Cores: runtime.NumCPU(), Seed: seed, Failed: []failure{}, Explained: map[string]int{}}
	began := time.Now()
	var mu sync.Mutex
	var wg sync.WaitGroup
	next := make(chan int)
	for range jobs {
		wg.Go(func() {
			for i := range next {
				one := prove(ctx, seed, i, flows)
				if ctx.Err() != nil {
					continue // what was cut short says nothing
				}
				mu.Lock()
				failed := len(r.Failed)
				r.add(i, one)
				for _, f := range r.Failed[failed:] {
					fmt.Fprintf(os.Stderr, "set %d: %d unexpected: %s\n", f.Set, f.Unexpected, f.Why)
				}
				if r.RuleSets%50 == 0 {
					fmt.Fprintf(os.Stderr, "%d of %d, %d unexpected, %.0f s\n", r.RuleSets, len(which), r.Unexpected, time.Since(began).Seconds())
				}
				mu.Unlock()
			}
		})
	}
	for _, i := range which {
		if ctx.Err() != nil {
			break
		}
		next <- i
	}
	close(next)
	wg.Wait()
	r.Seconds = time.Since(began).Seconds()
	if err := write(r, out); err != nil {
		return err
	}
	if len(r.Failed) > 0 || ctx.Err() != nil {
		return errors.Join(ctx.Err(), fmt.Errorf("%d of %d rule sets failed", len(r.Failed), r.RuleSets))
	}
	return nil
}

// sets lists the numbers of the rule sets to be made.
func sets(from, n int, only string) (out []int) {
	for s := range strings.SplitSeq(only, ",") {
		if i, err := strconv.Atoi(s); err == nil {
			out = append(out, i)
		}
	}
	for i := from; only == "" && i < from+n; i++ {
		out = append(out, i)
	}
	return out
}

func write(r *result, out string) error {
	w := io.Writer(os.Stdout)
	if out != "-" {
		f, err := os.Create(out)
		if err != nil {
			return err
		}
		defer f.Close()
		w = f
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(r)
}

// proved is one rule set.
type proved struct {
	tool, text string
	rules      int
	rep        *fwproof.Report
	err        error
}

func prove(ctx context.Context, seed uint64, i, flows int) (p proved) {
	rng := rand.New(rand.NewPCG(seed, uint64(i)))
	p.tool, p.text = rulegen.Set(rng.IntN)
	old, err := read(ctx, p.tool, p.text)
	if err != nil {
		p.err = err
		return p
	}
	for _, t := range old.Tables {
		for _, c := range t.Chains {
			p.rules += len(c.Rules)
		}
	}
	res, err := stateless.Convert([]*ruleset.Ruleset{old}, stateless.Options{})
	if err == nil && len(res.Refused) > 0 {
		err = fmt.Errorf("refused: %s", res.Refused[0].Reason)
	}
	if err != nil {
		p.err = err
		return p
	}
	p.rep, p.err = fwproof.Prove(ctx, fwproof.Input{
		Old: []*ruleset.Ruleset{old}, Text: fwproof.Side{{Tool: p.tool, Text: p.text}}, New: res.Rulesets,
		Intent: fwproof.Intent{Ports: stateless.DefaultPorts}, Random: flows / 8, Most: flows, Seed: seed + uint64(i),
	})
	return p
}

func read(ctx context.Context, tool, text string) (*ruleset.Ruleset, error) {
	switch tool {
	case "iptables":
		return ruleset.ParseIPTables(tool, ruleset.IP, []byte(text))
	case "ip6tables":
		return ruleset.ParseIPTables(tool, ruleset.IP6, []byte(text))
	}
	dump, err := fwproof.ReadNFT(ctx, text)
	if err != nil {
		return nil, err
	}
	return ruleset.ParseNFT(tool, dump)
}

func (r *result) add(i int, p proved) {
	r.RuleSets++
	r.Rules += p.rules
	switch p.tool {
	case "iptables":
		r.IPTables++
	case "ip6tables":
		r.IP6Tables++
	default:
		r.NFT++
	}
	if p.err != nil {
		r.Failed = append(r.Failed, failure{Set: i, Tool: p.tool, Text: p.text, Why: p.err.Error()})
		return
	}
	r.Conversations += p.rep.Conversations
	r.Packets += p.rep.Packets
	r.Undeliverable += p.rep.Undeliverable
	r.Accepted += p.rep.Accepted
	r.Unexpected += len(p.rep.Unexpected)
	for _, g := range p.rep.Groups {
		r.Explained[g.Name] += g.Count
	}
	if n := len(p.rep.Unexpected); n > 0 {
		d := p.rep.Unexpected[0]
		r.Failed = append(r.Failed, failure{i, p.tool, p.text, d.Packet + " after " + strings.Join(d.Before, "; ") + ": " + d.Why, n})
	}
}
