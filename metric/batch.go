package metric

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"math"
	"time"

	"headroom/unit"
)

// Limits of one batch. Larger ones are cut by Split before they travel.
const (
	MaxBatchBytes  = 512 << 10 // of the encoded form
	MaxBatchPoints = 20_000
	MaxOrigin      = 255 // bytes
)

// ID names a batch for ever: the store writes a batch of an ID once, however
// often it is delivered.
type ID [16]byte

// NewID returns a random ID.
func NewID() ID {
	var id ID
	_, _ = rand.Read(id[:]) // crypto/rand.Read never fails since Go 1.24
	return id
}

func (id ID) String() string { return hex.EncodeToString(id[:]) }

// Point is one value at one time.
type Point struct {
	At    int64 // milliseconds since 1970 UTC
	Value float64
}

// Row is points of one series, by rising time.
type Row struct {
	Series *Series
	Points []Point
}

// Batch is what one round of a collector or one request brought: the unit that
// is queued, acknowledged and stored as a whole.
type Batch struct {
	ID     ID
	Origin string // the host that sent it, for messages
	Rows   []Row
}

// Len is the number of points.
func (b *Batch) Len() int {
	n := 0
	for i := range b.Rows {
		n += len(b.Rows[i].Points)
	}
	return n
}

// Window is which times are taken: a clock that is off must not make
// partitions of 1970 or of next year.
type Window struct {
	Past   time.Duration // how old a point may be; 0: any age
	Future time.Duration // how far ahead of our clock
}

// Why says why a point is refused: not a number, infinite, or out of the
// window around now; "" if it is taken.
func (w Window) Why(p Point, now time.Time) string {
	switch {
	case math.IsNaN(p.Value):
		return "not a number"
	case math.IsInf(p.Value, 0):
		return "infinite"
	case p.At > now.Add(w.Future).UnixMilli():
		return fmt.Sprintf("time is more than %s ahead of this server's clock", unit.Seconds(w.Future.Seconds()))
	case w.Past > 0 && p.At < now.Add(-w.Past).UnixMilli():
		return fmt.Sprintf("older than the %s that are taken", unit.Seconds(w.Past.Seconds()))
	case p.At <= 0:
		return "time before 1970"
	}
	return ""
}
