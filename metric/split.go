package metric

import (
	"crypto/sha256"
	"encoding/binary"
)

// Bounds of what a row and a point add to an encoded batch before compression.
// Cutting goes by these bounds and not by the compressed size, so that a
// request that is repeated is cut in the same places by every version.
const (
	splitHead  = 4 << 10 // head, origin, what zstd may add to data it cannot compress
	splitRow   = 16      // lengths and the time of the first point
	splitPoint = 19      // time and value
)

// Split cuts a batch into ones that each have at most MaxBatchPoints points and
// MaxBatchBytes when encoded, in order. A batch that is small enough is
// returned as it is, under its own ID; the IDs of pieces are derived from the
// batch's ID and their place, so that a repeated request has the same ones.
// The pieces share points with b.
func (b *Batch) Split() []*Batch {
	if b.fits() {
		return []*Batch{b}
	}
	var out []*Batch
	piece := &Batch{Origin: b.Origin}
	points, size := 0, splitHead+len(b.Origin)
	next := func() {
		out = append(out, piece)
		piece = &Batch{Origin: b.Origin}
		points, size = 0, splitHead+len(b.Origin)
	}
	for _, r := range b.Rows {
		row := splitRow + len(r.Series.key)
		for rest := r.Points; ; {
			room := min(MaxBatchPoints-points, (MaxBatchBytes-size-row)/splitPoint)
			if room <= 0 && len(rest) > 0 {
				next()
				continue
			}
			n := min(room, len(rest))
			if n > 0 {
				piece.Rows = append(piece.Rows, Row{r.Series, rest[:n:n]})
				points, size = points+n, size+row+n*splitPoint
			}
			if rest = rest[n:]; len(rest) == 0 {
				break
			}
		}
	}
	if len(piece.Rows) > 0 || len(out) == 0 {
		out = append(out, piece)
	}
	if len(out) == 1 {
		out[0].ID = b.ID
		return out
	}
	for i, p := range out {
		p.ID = b.ID.Part(i)
	}
	return out
}

// fits says that nothing has to be cut or left out.
func (b *Batch) fits() bool {
	points, size := 0, splitHead+len(b.Origin)
	for i := range b.Rows {
		n := len(b.Rows[i].Points)
		if n == 0 {
			return false // rows without points do not travel
		}
		points, size = points+n, size+splitRow+len(b.Rows[i].Series.key)+n*splitPoint
	}
	return points <= MaxBatchPoints && size <= MaxBatchBytes
}

// Part is the ID of the i-th piece of what has this ID: always the same.
func (id ID) Part(i int) ID {
	var seed [len(id) + 8]byte
	copy(seed[:], id[:])
	binary.BigEndian.PutUint64(seed[len(id):], uint64(i))
	sum := sha256.Sum256(seed[:])
	return ID(sum[:len(id)])
}
