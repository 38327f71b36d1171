package place

import (
	"context"
	"errors"
	"fmt"

	"headroom/fact"
	"headroom/fail"
	"headroom/probe/block"
	"headroom/unit"
)

// Class is what kind of storage answers in such times.
type Class string

// The classes.
const (
	Flash    Class = "flash"    // nothing turns: SSD, NVMe, or a cache in front
	Spinning Class = "spinning" // a disk that has to seek and turn, or storage just as slow
	Unclear  Class = "unclear"
)

// Bounds of the classes, seconds. The fastest disks turn at 15,000 per minute,
// once in 4 ms: a sector is half a turn away on average, and a seek comes on
// top (3 ms and more over the whole disk). S18's arrays of such disks did
// 1056…1700 seeks a second with many heads at work; one disk alone does
// 100…200, which is 5…10 ms each. Flash answers in 0.05…0.5 ms, networked flash
// below 1 ms; on a busy machine single reads take longer, so the bound on the
// slow ones is a whole turn.
const (
	turn      = 4e-3
	halfTurn  = turn / 2
	flashSlow = 1e-3
)

// Latency is how fast the storage below the data folder answers.
type Latency struct {
	Device fact.Opt[string] `json:"device" src:"/sys/block" doc:"the device that was measured"`
	Disks  []string         `json:"disks,omitempty" src:"/sys/block/*/slaves" doc:"the whole disks below it"`
	Folder string           `json:"folder" src:"headroom" doc:"the folder whose device it is"`
	Class  Class            `json:"class" src:"headroom" doc:"flash, spinning or unclear, by the times of random reads"`
	Why    string           `json:"why" src:"headroom" doc:"what the class rests on"`
	Read   block.Latency    `json:"read" doc:"the times themselves"`
}

// Latencies is the fact "place.latency". It reads at most 1 % of the device
// for at most 2 s, at low priority, and keeps nothing of what it reads. See
// choose for what is read.
var Latencies = &fact.Source[Latency]{
	Name: "place.latency", Doc: "how long random reads take on the device of the data folder, measured", Probe: true,
	Read: readLatency,
}

func readLatency(ctx context.Context, in *fact.In) (Latency, error) {
	mounts, err := fact.From(ctx, in, block.Mounts)
	if err != nil {
		return Latency{}, err
	}
	devices, devErr := fact.From(ctx, in, block.Devices)
	j := joiner{in, mounts, devices, devErr}
	seed := uint64(in.Now().UnixNano()) // never the same places twice: a cache would know them
	folder, tables := target(ctx, in)
	p := j.place("data", folder)
	m, err := block.Holding(mounts, p.Path)
	if err != nil {
		return Latency{}, err
	}
	c, err := j.choose(m, p, tables, seed)
	if err != nil {
		return Latency{}, fmt.Errorf("measure storage latency: %w", err)
	}
	l := Latency{Device: p.Device, Disks: p.Disks, Folder: p.Path}
	if l.Read, err = block.Measure(ctx, in, c.paths, c.budget, seed); err != nil {
		return Latency{}, explain(err, c.paths[0])
	}
	l.Read.What = c.what
	l.Class, l.Why = Judge(l.Read)
	return l, nil
}

func explain(err error, path string) error {
	if errors.Is(err, fail.ErrDenied) {
		return fail.Hint(fmt.Errorf("measure storage latency: reading %s needs root or the group disk: %w", path, err),
			"run as root, or as a member of the group disk")
	}
	return fmt.Errorf("measure storage latency: %w", err)
}

// Judge tells the class of storage from the times of random reads, and what
// that rests on.
func Judge(l block.Latency) (Class, string) {
	p50, p95 := unit.Seconds(l.P50), unit.Seconds(l.P95)
	switch {
	case !l.Direct:
		return Unclear, "the reads went through the page cache, which hides the device"
	case l.P50 >= halfTurn:
		return Spinning, fmt.Sprintf("half of %d random reads took %s or more; half a turn of the fastest disk is %s", l.Reads, p50, unit.Seconds(halfTurn))
	case l.P50 < flashSlow && l.P95 < turn:
		return Flash, fmt.Sprintf("of %d random reads half took at most %s and 95 in 100 at most %s; the fastest disk turns once in %s and has to seek besides", l.Reads, p50, p95, unit.Seconds(turn))
	}
	return Unclear, fmt.Sprintf("half of %d random reads took at most %s, but 5 in 100 took over %s: a cache in front of a slow disk, or a busy fast one", l.Reads, p50, p95)
}
