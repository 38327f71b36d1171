package api

import (
	"math/bits"
	"math/rand/v2"

	"headroom/metric"
)

// rowTable finds the row of a series in a load. It is a hash table of the rows'
// numbers alone: the series lie in the load.
type rowTable struct {
	slots []int32 // a row's number plus 1; 0: free
	n     int
}

// scatter makes a slot of an id. It is odd and random: who chooses names cannot
// choose slots.
var scatter = rand.Uint64() | 1

const leastSlots = 256

// row returns the row of a series, or gives it the next one.
func (t *rowTable) row(s *metric.Series, series []*metric.Series) (row int32, known bool) {
	if 2*t.n >= len(t.slots) {
		t.grow(series)
	}
	i := t.start(s)
	for ; t.slots[i] != 0; i = (i + 1) & (len(t.slots) - 1) {
		if row = t.slots[i] - 1; series[row] == s {
			return row, true
		}
	}
	t.n++
	t.slots[i] = int32(t.n)
	return int32(t.n - 1), false
}

func (t *rowTable) start(s *metric.Series) int {
	return int(uint64(s.ID()) * scatter >> (64 - bits.Len(uint(len(t.slots)-1))))
}

func (t *rowTable) grow(series []*metric.Series) {
	t.slots = make([]int32, max(leastSlots, 2*len(t.slots)))
	for row, s := range series {
		i := t.start(s)
		for t.slots[i] != 0 {
			i = (i + 1) & (len(t.slots) - 1)
		}
		t.slots[i] = int32(row + 1)
	}
}

func (t *rowTable) reset() {
	clear(t.slots)
	t.n = 0
}
