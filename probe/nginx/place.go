package nginx

import (
	"cmp"
	"hash/fnv"
	"strconv"
	"strings"

	"headroom/host"
)

// markBytes is how much of what lies before a place tells whether it is the
// same file still.
const markBytes = 512

// Place is a place in a file. The file is told by its inode, and by what lies
// before the place: an inode may be used again, and a file may be cut and have
// grown again.
type Place struct {
	Inode  uint64 `json:"inode"`
	Off    int64  `json:"offset"`
	Before int    `json:"before"` // bytes before Off that Sum is of
	Sum    uint64 `json:"sum"`
	Long   bool   `json:"long,omitempty"`  // within a line that is too long
	Ended  bool   `json:"ended,omitempty"` // of a rotated file: its end was reached
	last   []byte // what Sum is of, if we read it
}

// look takes what lies before the place as its mark.
func (p *Place) look(r host.Reader, file string) {
	n := min(p.Off, markBytes)
	if b, err := r.ReadFrom(file, p.Off-n, int(n)); err == nil && int64(len(b)) == n {
		p.mark(b)
	}
}

func (p *Place) mark(b []byte) {
	p.last = append([]byte(nil), b[max(len(b)-markBytes, 0):]...)
	p.Before, p.Sum = len(p.last), sum(p.last)
}

// pass goes on by what was read.
func (p *Place) pass(b []byte) {
	p.Off += int64(len(b))
	p.mark(append(p.last, b[max(len(b)-markBytes, 0):]...))
}

// leads says whether a file holds before the place what was there. One that
// cannot be read now is no other.
func (p *Place) leads(r host.Reader, file string) bool {
	if p.Before == 0 {
		return true
	}
	b, err := r.ReadFrom(file, p.Off-int64(p.Before), p.Before)
	return err != nil || len(b) == p.Before && sum(b) == p.Sum
}

func sum(b []byte) uint64 {
	h := fnv.New64a()
	_, _ = h.Write(b)
	return h.Sum64()
}

// older orders what rotation puts behind a log's name: .2 before .1, and
// -20260101 before -20260102.
func older(a, b string) int {
	x, errX := strconv.Atoi(strings.TrimPrefix(a, "."))
	y, errY := strconv.Atoi(strings.TrimPrefix(b, "."))
	if errX == nil && errY == nil && a[0] == '.' && b[0] == '.' && len(a) < 7 && len(b) < 7 {
		return cmp.Compare(y, x)
	}
	return strings.Compare(a, b)
}
