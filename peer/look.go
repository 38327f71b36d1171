package peer

import (
	"context"
	"slices"
	"time"

	"headroom/agent"
)

// LookFor is how long a look counts: who goes on looking says so again before.
const LookFor = 20 * time.Second

// maxLooks bounds the servers of a host whose sessions are asked for at once.
const maxLooks = 8

// Look notes that somebody looks at a host now, and with a server at what runs
// there.
func (b *Book) Look(host, server string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.hosts[host]
	if e == nil {
		return
	}
	now := b.o.Now()
	e.looks[""] = now
	if server == "" {
		return
	}
	for s, at := range e.looks {
		if s != "" && now.Sub(at) > LookFor {
			delete(e.looks, s)
		}
	}
	if _, ok := e.looks[server]; ok || len(e.looks) <= maxLooks {
		e.looks[server] = now
	}
}

func (b *Book) looked(at time.Time) bool { return b.o.Now().Sub(at) < LookFor }

// Wanted is what a host is asked for now; nil: nobody looks.
func (b *Book) Wanted(host string) *agent.Look {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.hosts[host]
	if e == nil || !b.looked(e.looks[""]) {
		return nil
	}
	l := &agent.Look{Seconds: int(LookFor / time.Second)}
	for s, at := range e.looks {
		if s != "" && b.looked(at) {
			l.Sessions = append(l.Sessions, s)
		}
	}
	slices.Sort(l.Sessions)
	return l
}

// Fresh is how old a list of sessions may be to be shown as what runs now.
const Fresh = 10 * time.Second

// SessionsNow asks for the sessions of a server, and returns them if they came
// just now; false if they have yet to come.
func (b *Book) SessionsNow(host, server string) (Told, bool) {
	b.Look(host, server)
	t, ok := b.told(host, key{Sessions, server})
	return t, ok && b.o.Now().Sub(t.Received) <= Fresh
}

// WaitSessions is SessionsNow that waits until they come or the context ends.
func (b *Book) WaitSessions(ctx context.Context, host, server string) (Told, bool) {
	for {
		b.mu.Lock()
		changed := b.changed
		b.mu.Unlock()
		if t, ok := b.SessionsNow(host, server); ok {
			return t, true
		}
		select {
		case <-ctx.Done():
			return Told{}, false
		case <-changed:
		}
	}
}
