package agent

import (
	"sync"
	"time"

	"headroom/metric"
)

// bundle gathers what the groups of one round bring into as few batches as
// may be: one, and one more for each group that is slow.
type bundle struct {
	send    func([]metric.Row)
	timer   *time.Timer
	mu      sync.Mutex
	rows    []metric.Row
	pending int // groups that have not ended
	sent    bool
}

// add takes rows; once the bundle is sent they go by themselves.
func (b *bundle) add(rows []metric.Row) {
	if len(rows) == 0 {
		return
	}
	b.mu.Lock()
	if !b.sent {
		b.rows = append(b.rows, rows...)
		b.mu.Unlock()
		return
	}
	b.mu.Unlock()
	b.send(rows)
}

// done says that a group has nothing more to bring; the last one sends.
func (b *bundle) done() {
	b.mu.Lock()
	b.pending--
	last := b.pending == 0
	b.mu.Unlock()
	if last {
		b.flush()
	}
}

// flush sends what there is. The lock is held while it does, so that no group
// ends, and with the last one the slot, before it is sent.
func (b *bundle) flush() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.timer != nil {
		b.timer.Stop()
	}
	if !b.sent && len(b.rows) > 0 {
		b.send(b.rows)
	}
	b.sent, b.rows = true, nil
}
