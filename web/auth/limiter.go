package auth

import (
	"net/netip"
	"sync"
	"time"
)

// Failed tries that are answered as such, for each address (of IPv6 for each
// /64) and in all; more are only told to wait. Who shows a valid secret is
// never made to wait: nobody can lock out its owner.
const (
	failBurst    = 10
	failEvery    = 6 * time.Second // one more try is earned
	failAllBurst = 200
	failAllEvery = 300 * time.Millisecond
	failPlaces   = 10_000 // addresses remembered
)

// Limiter counts failed tries. The zero value is ready; it is safe for
// concurrent use.
type Limiter struct {
	mu    sync.Mutex
	all   bucket
	place map[netip.Addr]bucket
	Now   func() time.Time // nil: time.Now
}

// bucket is how many tries are used up at a time.
type bucket struct {
	used float64
	at   time.Time
}

func (b bucket) take(now time.Time, burst float64, every time.Duration) (bucket, time.Duration) {
	earned := now.Sub(b.at).Seconds() / every.Seconds()
	b.used, b.at = max(0, b.used-max(0, earned)), now
	if b.used+1 > burst {
		return b, time.Duration((b.used + 1 - burst) * float64(every))
	}
	b.used++
	return b, 0
}

// Failed notes a failed try from an address and returns 0, or how long to wait
// before the next one is worth making.
func (l *Limiter) Failed(from netip.Addr) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if l.Now != nil {
		now = l.Now()
	}
	from = from.Unmap()
	if from.Is6() {
		if p, err := from.Prefix(64); err == nil {
			from = p.Addr()
		}
	}
	if l.place == nil || len(l.place) >= failPlaces {
		l.forget(now)
	}
	b, wait := l.place[from].take(now, failBurst, failEvery)
	l.place[from] = b
	if wait > 0 {
		return wait
	}
	l.all, wait = l.all.take(now, failAllBurst, failAllEvery)
	return wait
}

// forget drops addresses that have earned all their tries back; if that is not
// enough, all of them.
func (l *Limiter) forget(now time.Time) {
	kept := map[netip.Addr]bucket{}
	for a, b := range l.place {
		if now.Sub(b.at) < failBurst*failEvery {
			kept[a] = b
		}
	}
	if len(kept) >= failPlaces {
		kept = map[netip.Addr]bucket{}
	}
	l.place = kept
}
