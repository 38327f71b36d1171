package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"headroom/stats"
)

// cost is what one row takes, beside time: the median of the rounds.
type cost struct {
	Client float64 // CPU seconds of this process
	Server float64 // CPU seconds of the server's processes
	WAL    float64 // bytes of write-ahead log
}

// tick is the unit of CPU time in /proc: USER_HZ, the same everywhere on Linux.
const tick = 0.01

// spent is what was used up to now: the same in sums.
func (b *bench) spent(ctx context.Context) (c cost, err error) {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return c, err
	}
	c.Client = float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
	if c.Server, err = b.serverCPU(); err != nil {
		return c, err
	}
	return c, b.admin.QueryRow(ctx, "SELECT (pg_current_wal_insert_lsn() - '0/0')::float8").Scan(&c.WAL)
}

// serverCPU sums up the server's processes, also those that have ended.
func (b *bench) serverCPU() (float64, error) {
	raw, err := os.ReadFile(filepath.Join(b.srv.DataDir, "postmaster.pid"))
	if err != nil {
		return 0, err
	}
	parent, _, _ := strings.Cut(string(raw), "\n")
	all, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0, err
	}
	ticks := 0
	for _, path := range all {
		raw, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		_, rest, _ := strings.Cut(string(raw[max(0, strings.LastIndexByte(string(raw), ')')):]), " ")
		f := strings.Fields(rest) // from field 3 of proc(5) on
		if len(f) < 15 {
			return 0, fmt.Errorf("read %s: %d fields", path, len(f))
		}
		own := filepath.Base(filepath.Dir(path)) == parent
		if !own && f[1] != parent {
			continue
		}
		fields := f[11:13] // utime, stime
		if own {
			fields = f[11:15] // and of children that have ended
		}
		for _, v := range fields {
			n, err := strconv.Atoi(v)
			if err != nil {
				return 0, fmt.Errorf("read %s: %w", path, err)
			}
			ticks += n
		}
	}
	return float64(ticks) * tick, nil
}

// perRow is what rows took that were written between two sums.
func perRow(from, to cost, rows int64) cost {
	n := float64(rows)
	return cost{(to.Client - from.Client) / n, (to.Server - from.Server) / n, (to.WAL - from.WAL) / n}
}

// middle is the median of each part.
func middle(rounds []cost) cost {
	of := func(part func(cost) float64) float64 {
		var v []float64
		for _, c := range rounds {
			v = append(v, part(c))
		}
		slices.Sort(v)
		return stats.Quantile(v, 0.5)
	}
	return cost{of(func(c cost) float64 { return c.Client }), of(func(c cost) float64 { return c.Server }), of(func(c cost) float64 { return c.WAL })}
}
