package api

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// places bounds the requests that bring samples at the same time, in all and
// with one token: a sender that is slow, or sends too much at once, leaves room
// for others.
type places struct {
	all chan struct{}
	mu  sync.Mutex
	of  map[string]*half
}

// half is the places that one token may take.
type half struct {
	taken chan struct{}
	users int // that hold or wait for one
}

func newPlaces(n int) *places {
	return &places{all: make(chan struct{}, n), of: map[string]*half{}}
}

func (p *places) join(who string) *half {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.of[who]
	if h == nil {
		h = &half{taken: make(chan struct{}, max(1, cap(p.all)/2))}
		p.of[who] = h
	}
	h.users++
	return h
}

func (p *places) leave(who string, h *half) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if h.users--; h.users == 0 {
		delete(p.of, who)
	}
}

// placeWait is how long a request waits for a place.
const placeWait = 5 * time.Second

// take waits for a place; the caller must call end.
func (p *places) take(ctx context.Context, who string) (end func(), err error) {
	h := p.join(who)
	wait := time.NewTimer(placeWait)
	defer wait.Stop()
	for i, c := range []chan struct{}{h.taken, p.all} {
		select {
		case c <- struct{}{}:
			continue
		case <-ctx.Done():
			err = ctx.Err()
		case <-wait.C:
			err = later(2*time.Second, "send fewer, larger requests", fmt.Errorf("%d requests %s are being read", cap(c), []string{"with this token", "that bring samples"}[i]))
		}
		if i > 0 {
			<-h.taken
		}
		p.leave(who, h)
		return nil, err
	}
	return func() {
		<-p.all
		<-h.taken
		p.leave(who, h)
	}, nil
}

// begin takes a place among the requests that bring samples. The caller must
// call end.
func (a *API) begin(r *http.Request) (end func(), err error) {
	return a.slots.take(r.Context(), a.newBringer(r.Context()).id)
}
