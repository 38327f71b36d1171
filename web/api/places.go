package api

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// places bounds the memory of the requests that bring samples at the same
// time, and with it their number. One token gets half of it: a sender that is
// slow, or sends too much at once, leaves room for others.
type places struct {
	mu    sync.Mutex
	most  int64
	taken int64
	of    map[string]int64 // by token
	freed chan struct{}    // closed when some memory is given back
}

func newPlaces(memory int64) *places {
	return &places{most: memory, of: map[string]int64{}, freed: make(chan struct{})}
}

// placeWait is how long a request waits for its place.
const placeWait = 5 * time.Second

// take waits for a place that has so much memory (or all there is, if that is
// less); the caller must call end.
func (p *places) take(ctx context.Context, who string, memory int64) (end func(), err error) {
	memory = min(memory, p.most)
	wait := time.NewTimer(placeWait)
	defer wait.Stop()
	for {
		freed := p.try(who, memory)
		if freed == nil {
			return func() { p.giveBack(who, memory) }, nil
		}
		select {
		case <-freed:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-wait.C:
			return nil, p.crowded(who)
		}
	}
}

// try takes a place, or returns what tells that there may be one. A token that
// has none gets one of any size.
func (p *places) try(who string, memory int64) (freed <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	own := p.of[who]
	if p.taken+memory > p.most || own > 0 && own+memory > p.most/2 {
		return p.freed
	}
	p.taken += memory
	p.of[who] = own + memory
	return nil
}

func (p *places) giveBack(who string, memory int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken -= memory
	if p.of[who] -= memory; p.of[who] == 0 {
		delete(p.of, who)
	}
	close(p.freed)
	p.freed = make(chan struct{})
}

func (p *places) crowded(who string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return later(2*time.Second, "send fewer and smaller requests at the same time",
		fmt.Errorf("requests that bring samples take %d of the %d MiB that they may, those with this token %d", p.taken>>20, p.most>>20, p.of[who]>>20))
}
