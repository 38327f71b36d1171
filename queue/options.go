package queue

import (
	"time"
)

// Options says where a queue lies and how much it may hold. The zero value of
// each field but Dir is a sound choice.
type Options struct {
	Dir      string        // made if missing, readable by its owner only
	MaxBytes int64         // on disk; 0: 2 GiB. More is refused with ErrFull
	Lease    time.Duration // how long a message may be out; 0: 60 s
	MaxOut   int           // most messages out or waiting to come again at once; 0: 10,000
	MinFree  int64         // bytes left free on the disk for others; 0: 32 MiB, negative: none
	// DeadBytes bounds the dead letters; the oldest go first. 0: 64 MiB.
	DeadBytes int64
	// SegmentBytes is the size of one file of a log; 0: 64 MiB, or less where
	// MaxBytes is small. What is acknowledged frees the disk file by file.
	SegmentBytes int64
	// Note is told what a person should know: damage found, pauses and their
	// end. It must not block. The newest are in Status as well.
	Note func(text string)
}

// WithDefaults fills in what was left open. It is not for options that were
// filled in already.
func (o Options) WithDefaults() Options {
	def := func(v *int64, d int64) {
		if *v == 0 {
			*v = d
		}
	}
	def(&o.MaxBytes, 2<<30)
	def(&o.MinFree, 32<<20)
	def(&o.DeadBytes, 64<<20)
	def(&o.SegmentBytes, max(min(64<<20, o.MaxBytes/16), 64<<10))
	o.MinFree = max(o.MinFree, 0)
	if o.Lease == 0 {
		o.Lease = time.Minute
	}
	if o.MaxOut == 0 {
		o.MaxOut = 10_000
	}
	if o.Note == nil {
		o.Note = func(string) {}
	}
	return o
}
