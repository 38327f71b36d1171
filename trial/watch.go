package trial

import (
	"context"
	"fmt"
	"os"
	"strings"

	"headroom/host"
	"headroom/probe/pg"
	"headroom/probe/proc"
)

// From when on a round counts as disturbed. A tick of the kernel's accounting
// is 1/100 s, so in rounds of half a second these are 10 ticks and more.
const (
	stealLimit   = 0.02 // share of all CPU time that the hypervisor gave to others
	processLimit = 0.25 // of a core, used by programs that have no part in the trial
	unknownLimit = 0.5  // of a core, used by programs that began and ended within the round
)

// watcher samples the machine and one stand's server around a round.
type watcher struct {
	machine host.Reader
	server  host.Reader // nil: no server
	pid     int         // the server's first process; 0: not on this machine
}

// begin takes the samples before; the function it returns takes those after
// and judges.
func (w watcher) begin(ctx context.Context) func(context.Context, Round) seen {
	var before pg.Counters
	counted := false
	if w.server != nil {
		c, err := pg.ReadCounters(ctx, w.server)
		before, counted = c, err == nil
	}
	load, loadErr := proc.Sample(w.machine)
	return func(ctx context.Context, _ Round) seen {
		out := seen{wal: -1}
		if now, err := proc.Sample(w.machine); err == nil && loadErr == nil {
			out.marks = w.machineMarks(load, now)
		}
		if !counted {
			return out
		}
		after, err := pg.ReadCounters(ctx, w.server)
		if err != nil {
			return out
		}
		out.wal = after.WALBytes - before.WALBytes
		out.checkpoints = after.Timed + after.Requested - before.Timed - before.Requested
		out.marks = append(out.marks, serverMarks(before, after, out.checkpoints)...)
		return out
	}
}

// serverMarks tells what the server did of its own accord.
func serverMarks(before, after pg.Counters, checkpoints int64) []Mark {
	var out []Mark
	switch {
	case checkpoints > 0:
		out = append(out, Mark{ByCheckpoint, fmt.Sprintf("%d checkpoint(s) began", checkpoints)})
	case before.Checkpointing.Value || after.Checkpointing.Value:
		out = append(out, Mark{ByCheckpoint, "a checkpoint was going on"})
	}
	if n := max(before.Vacuuming, after.Vacuuming); n > 0 {
		out = append(out, Mark{ByAutovacuum, fmt.Sprintf("%d autovacuum worker(s) at work", n)})
	}
	return out
}

// machineMarks tells what used the machine that has no part in the trial.
func (w watcher) machineMarks(before, after proc.Load) []Mark {
	act, err := proc.Between(before, after)
	if err != nil {
		return nil
	}
	var out []Mark
	if act.Steal > stealLimit {
		out = append(out, Mark{BySteal, fmt.Sprintf("the hypervisor gave %.0f %% of the CPU to others", 100*act.Steal)})
	}
	var others, known float64
	var names []string
	for _, t := range act.Tasks {
		known += t.Cores
		if w.ours(t.Task) {
			continue
		}
		others += t.Cores
		if len(names) < 3 {
			names = append(names, fmt.Sprintf("%s (pid %d) %.2f", t.Name, t.PID, t.Cores))
		}
	}
	if others > processLimit {
		out = append(out, Mark{ByProcess, fmt.Sprintf("other programs used %.2f of a core: %s", others, strings.Join(names, ", "))})
	}
	if brief := act.Busy - known; brief > unknownLimit {
		out = append(out, Mark{ByBrief, fmt.Sprintf("programs that ended meanwhile used %.2f of a core", brief)})
	}
	return out
}

// kthreadd is the parent of all kernel threads; they work for the trial as for
// anybody and are not told apart.
const kthreadd = 2

func (w watcher) ours(t proc.Task) bool {
	return t.PID == os.Getpid() || t.Parent == kthreadd || t.PID == kthreadd ||
		w.pid != 0 && (t.PID == w.pid || t.Parent == w.pid)
}
