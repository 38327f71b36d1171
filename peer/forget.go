package peer

import (
	"errors"
	"fmt"
	"time"

	"headroom/fail"
)

// forgotten is that a host is missed no more, from a time on.
type forgotten struct {
	at   time.Time
	kept bool // in the store
}

// mark is the kind under which the store keeps that a host was forgotten. No
// host tells it.
const mark Kind = "forgotten"

// ErrSpeaks says that a host is not silent.
var ErrSpeaks = errors.New("it speaks")

// Forget has a silent host missed no more: it is not listed until it is heard
// again. heard is when it was heard last as far as the caller knows. ErrSpeaks
// if that, or what the book knows, is not long ago; ErrRoom if too many are
// forgotten.
func (b *Book) Forget(host string, heard time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.hosts[host]
	if e != nil && e.heard.After(heard) {
		heard = e.heard
	}
	if b.SilentSince(heard).IsZero() || host == b.o.Own {
		return fail.Hint(fmt.Errorf("forget host %q: %w", host, ErrSpeaks), "stop headroom agent there, or revoke its token; %s later it is silent", b.o.Silent)
	}
	b.forget()
	if len(b.forgotten) >= b.o.Hosts {
		return fmt.Errorf("forget host %q: %w: %d are forgotten", host, ErrRoom, len(b.forgotten))
	}
	if e != nil {
		b.drop(host, e)
	}
	b.forgotten[host] = forgotten{at: b.o.Now()}
	return nil
}

// Forgotten says whether a host that was heard last at a time was forgotten
// since.
func (b *Book) Forgotten(host string, heard time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	f, yes := b.forgotten[host]
	return yes && !heard.After(f.at)
}
