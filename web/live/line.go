package live

import (
	"sync"

	"headroom/metric"
)

// line holds the batches that are still to be shown. Who brings batches never
// waits for those who look: when these fall behind, the oldest are left out,
// and they are told how many.
type line struct {
	mu      sync.Mutex
	waiting [][]metric.Row
	points  int // of all that wait
	left    int // batches left out since the last one was taken
	showing bool
}

// What may wait in line: a second of batches at full speed, 16 MB of points.
const (
	lineBatches = 256
	linePoints  = 1 << 20
)

// add puts a batch in line; begin says that nobody takes from it now, and that
// the caller must see to it.
func (l *line) add(rows []metric.Row) (begin bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = append(l.waiting, rows)
	l.points += count(rows)
	for len(l.waiting) > lineBatches || l.points > linePoints && len(l.waiting) > 1 {
		l.drop()
		l.left++
	}
	begin = !l.showing
	l.showing = true
	return begin
}

// next takes the oldest batch; not ok ends the showing.
func (l *line) next() (rows []metric.Row, left int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) == 0 {
		l.showing = false
		return nil, 0, false
	}
	left, l.left = l.left, 0
	return l.drop(), left, true
}

func (l *line) drop() []metric.Row {
	rows := l.waiting[0]
	l.waiting[0] = nil
	l.waiting = l.waiting[1:]
	l.points -= count(rows)
	return rows
}

func count(rows []metric.Row) (points int) {
	for i := range rows {
		points += len(rows[i].Points)
	}
	return points
}

// snapshot copies rows and points of a batch, for all who look.
func snapshot(b *metric.Batch) []metric.Row {
	rows := append([]metric.Row(nil), b.Rows...)
	arena := make([]metric.Point, 0, count(rows))
	for i := range rows {
		first := len(arena)
		arena = append(arena, rows[i].Points...)
		rows[i].Points = arena[first:len(arena):len(arena)]
	}
	return rows
}
