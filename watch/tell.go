package watch

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"headroom/agent"
	"headroom/metric"
	"headroom/peer"
	"headroom/topic/postgres"
)

// When a host tells of itself.
const (
	tellEvery     = 5 * time.Second  // what has changed
	tellAgain     = 5 * time.Minute  // what has not
	tellPause     = time.Minute      // the longest pause after failures
	olderPause    = 10 * time.Minute // after the other said that it is too old
	sessionsEvery = 2 * time.Second
	sessionsLimit = 5 * time.Second // for one list
	maxLooked     = 8               // servers whose sessions are listed at once
)

// teller tells the other Headroom about this host, besides samples: what is
// watched, what cannot be read, what the checks found and, while somebody
// looks, the sessions.
type teller struct {
	host, version string
	targets       func() []agent.Target
	gaps          func() []metric.Gap
	findings      func() []peer.Inspection
	ship          *agent.Shipper
	say           func(string)

	sent  map[peer.Kind]sending
	said  string
	pause time.Duration

	mu     sync.Mutex
	looked map[string]time.Time // by server: its sessions are wanted until then
	wake   chan struct{}
}

// sending is what was told of a kind last.
type sending struct {
	text string
	at   time.Time
}

func newTeller(host, version string, r *agent.Runner, c *checker, s *agent.Shipper, say func(string)) *teller {
	return &teller{host: host, version: version, targets: r.Targets, gaps: r.Gaps, findings: c.list, ship: s, say: say,
		sent: map[peer.Kind]sending{}, looked: map[string]time.Time{}, wake: make(chan struct{}, 1)}
}

// look takes up what the other asks for.
func (t *teller) look(l agent.Look) {
	t.mu.Lock()
	defer t.mu.Unlock()
	until := time.Now().Add(time.Duration(min(max(l.Seconds, 0), 60)) * time.Second)
	for _, s := range l.Sessions[:min(len(l.Sessions), maxLooked)] {
		t.looked[s] = until
	}
	select {
	case t.wake <- struct{}{}:
	default: // it is awake
	}
}

// wanted lists the servers whose sessions somebody looks at.
func (t *teller) wanted() (out []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for s, until := range t.looked {
		if time.Now().After(until) {
			delete(t.looked, s)
			continue
		}
		out = append(out, s)
	}
	slices.Sort(out)
	return out[:min(len(out), maxLooked)]
}

// run tells what changed, and now and then all, until the context ends. It
// begins after a moment: before the first rounds nothing is known to be well.
func (t *teller) run(ctx context.Context) error {
	for wait := tellEvery; ; wait = t.round(ctx) {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

// round tells once, and returns how long to wait for the next.
func (t *teller) round(ctx context.Context) time.Duration {
	docs := []peer.Document{{Kind: peer.Targets, Targets: t.targets()}, {Kind: peer.Gaps, Gaps: t.gaps()}}
	if list := t.findings(); len(list) > 0 { // none: no check has ended yet
		docs = append(docs, peer.Document{Kind: peer.Findings, Inspections: list})
	}
	for _, d := range docs {
		err := t.tell(ctx, d)
		switch {
		case ctx.Err() != nil || err == nil:
			continue
		case errors.Is(err, agent.ErrOlder):
			t.once("what is watched, found and missing here is not shown there: " + words(err))
			return olderPause
		case errors.Is(err, agent.ErrRefused):
			t.once("what this host tells of itself is not taken: " + words(err))
		}
		t.pause = min(max(2*t.pause, tellEvery), tellPause) // that the other is away is told by what ships samples
		return t.pause/2 + rand.N(t.pause/2)
	}
	t.pause, t.said = 0, ""
	return tellEvery
}

// once says a text that was not the last one said.
func (t *teller) once(text string) {
	if text != t.said {
		t.said = text
		t.say(text)
	}
}

// tell sends a document if it has changed, or was sent long ago.
func (t *teller) tell(ctx context.Context, d peer.Document) error {
	text, err := json.Marshal(d)
	if err != nil {
		return err
	}
	was := t.sent[d.Kind]
	if was.text == string(text) && time.Since(was.at) < tellAgain {
		return nil
	}
	if err := t.send(ctx, d); err != nil {
		return err
	}
	t.sent[d.Kind] = sending{string(text), time.Now()}
	return nil
}

func (t *teller) send(ctx context.Context, d peer.Document) error {
	d.Host, d.Program, d.At = t.host, t.version, time.Now().UTC()
	body, err := peer.Encode(d)
	if err != nil {
		return err
	}
	return t.ship.Tell(ctx, body)
}

// sessions tells what runs on the servers that somebody looks at, for as long
// as that is so.
func (t *teller) sessions(ctx context.Context) error {
	for {
		servers := t.wanted()
		for _, server := range servers {
			_ = t.send(ctx, t.list(ctx, server)) // the next list comes soon
		}
		var again <-chan time.Time
		wake := t.wake
		if len(servers) > 0 {
			again, wake = time.After(sessionsEvery), nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-again:
		case <-wake:
		}
	}
}

func (t *teller) list(ctx context.Context, server string) peer.Document {
	ctx, stop := context.WithTimeout(ctx, sessionsLimit)
	defer stop()
	d := peer.Document{Kind: peer.Sessions, Server: server}
	var list []postgres.Session
	list, err := sessionsOn(ctx, t.targets(), server)
	if err != nil {
		d.Why = words(err)
	}
	d.Sessions = list
	return d
}

// shown sends what is read each second to those who look; what comes faster
// than it can be sent is left out.
func shown(ship *agent.Shipper) (take func(*metric.Batch), run func(context.Context) error) {
	line := make(chan *metric.Batch, 4)
	take = func(b *metric.Batch) {
		select {
		case line <- b:
		default:
		}
	}
	return take, func(ctx context.Context) error {
		for {
			select {
			case <-ctx.Done():
				return nil
			case b := <-line:
				_ = ship.Show(ctx, b) // the next second brings another
			}
		}
	}
}
