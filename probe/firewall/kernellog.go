package firewall

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"headroom/fact"
	"headroom/fail"
)

// KernelLog is what the kernel's log says of packets that it could not keep up
// with. Its times are seconds since boot; it holds as much as its buffer does.
type KernelLog struct {
	Begins  float64 `json:"begins" unit:"seconds" src:"dmesg" doc:"the time of its oldest line, since boot"`
	Ends    float64 `json:"ends" unit:"seconds" src:"dmesg" doc:"the time of its newest line, since boot"`
	Full    int64   `json:"table_full" unit:"count" src:"dmesg, nf_conntrack: table full" doc:"lines that tell of packets dropped because the connection tracking table was full; each may stand for many"`
	First   float64 `json:"first_full" unit:"seconds" src:"dmesg" doc:"the time of the first of them"`
	Last    float64 `json:"last_full" unit:"seconds" src:"dmesg" doc:"the time of the last of them"`
	Skipped int64   `json:"suppressed" unit:"count" src:"dmesg, callbacks suppressed" doc:"further lines that the kernel kept back"`
}

// Told is the fact "firewall.kernel-log".
var Told = &fact.Source[KernelLog]{
	Name: "firewall.kernel-log", Doc: "what the kernel's log says of a full connection tracking table",
	Read: func(ctx context.Context, in *fact.In) (KernelLog, error) {
		out, err := in.Look(ctx, "dmesg")
		switch {
		case err != nil && refused(err):
			return KernelLog{}, fail.Hint(fmt.Errorf("read the kernel's log: %w: only root may (kernel.dmesg_restrict)", fail.ErrDenied), "run it as root")
		case errors.Is(err, fail.ErrAbsent):
			return KernelLog{}, fmt.Errorf("read the kernel's log: no program dmesg: %w", fail.ErrAbsent)
		case err != nil:
			return KernelLog{}, err
		}
		return ParseKernelLog(string(out))
	},
}

// ParseKernelLog reads what dmesg writes: "[   12.345678] text". Lines without
// a time count at the time of the line before them.
func ParseKernelLog(log string) (KernelLog, error) {
	var k KernelLog
	timed := false
	for line := range strings.Lines(log) {
		text := line
		if in, rest, ok := strings.Cut(strings.TrimPrefix(line, "["), "] "); ok && line[0] == '[' {
			if at, err := strconv.ParseFloat(strings.TrimSpace(in), 64); err == nil && at >= 0 && at < 1e12 {
				if !timed {
					k.Begins, timed = at, true
				}
				k.Ends, text = at, rest
			}
		}
		k.line(text)
	}
	if log != "" && !timed {
		return k, errors.New("read the kernel's log: its lines carry no times (printk.time is off)")
	}
	return k, nil
}

func (k *KernelLog) line(text string) {
	switch {
	case strings.Contains(text, "nf_conntrack") && strings.Contains(text, "table full") && !strings.Contains(text, "expectation"):
		if k.Full == 0 {
			k.First = k.Ends
		}
		k.Full++
		k.Last = k.Ends
	case strings.Contains(text, "callbacks suppressed") && strings.Contains(text, "nf_conntrack"), strings.HasPrefix(text, "net_ratelimit: "):
		for f := range strings.FieldsSeq(text) {
			if n, err := strconv.ParseInt(f, 10, 32); err == nil {
				k.Skipped += n
				return
			}
		}
	}
}
