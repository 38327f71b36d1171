package api

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"headroom/metric"
)

// book knows the series that came within a day or two. It has two purposes:
// the text of a series is looked up and not read again for each point, and new
// series are counted, so that a flood of labels cannot fill the store.
type book struct {
	most int
	now  func() time.Time

	mu     sync.RWMutex
	by     senders
	known  generation
	texts  map[string]*spelling // as they were written by their senders
	before map[string]*spelling // texts of the generation before
	turns  atomic.Uint32        // how often texts began anew
}

// spelling is a series as a sender wrote it. Senders write theirs in the same
// order each time, so each knows which came behind it.
type spelling struct {
	text   string
	series *metric.Series
	turn   uint32 // it is forgotten when texts begin anew
	after  atomic.Pointer[spelling]
}

// generation is the ids met in a span of time, and in the one before.
type generation struct {
	now, before map[int64]struct{}
	began       time.Time
}

const (
	generationLife = 24 * time.Hour
	maxTexts       = 200_000 // texts kept in each of two generations
)

func newBook(most int, now func() time.Time) *book {
	return &book{most: most, now: now, by: senders{of: map[string]*sender{}},
		known: generation{map[int64]struct{}{}, map[int64]struct{}{}, now()},
		texts: map[string]*spelling{}, before: map[string]*spelling{}}
}

// find returns what a text stands for, if it was met before. last is what came
// before it in the same request, nil if nothing did.
func (b *book) find(last *spelling, text []byte) *spelling {
	if last != nil {
		if x := last.after.Load(); x != nil && x.text == string(text) && x.turn == b.turns.Load() {
			return x
		}
	}
	b.mu.RLock()
	x := b.texts[string(text)]
	b.mu.RUnlock()
	if x != nil && last != nil {
		last.after.Store(x)
	}
	return x
}

// errOver says that a series is new and the budget for new ones is used up.
var errOver = errors.New("over the budget of new series")

// admit lets a series in: one that is known, or a new one for which its sender
// has budget. text, if not nil, stands for it from now on.
func (b *book) admit(s *metric.Series, text []byte, t *bringer) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.turn()
	id := s.ID()
	if _, ok := b.known.now[id]; !ok {
		_, old := b.known.before[id]
		if !old {
			if err := b.fresh(t); err != nil {
				return fmt.Errorf("series %.120s is new, and %w", s.Key(), err)
			}
		}
		delete(b.known.before, id)
		b.known.now[id] = struct{}{}
		b.by.get(t.id).met(old)
	}
	if text != nil {
		if len(b.texts) >= maxTexts {
			b.forget()
		}
		x := &spelling{text: string(text), series: s, turn: b.turns.Load()}
		b.texts[x.text] = x
	}
	return nil
}

// fresh takes a new series off its sender's budget. Where all senders together
// have brought as many as there is room for, those below an equal share of it
// may still bring some: who used it up does not shut out the others. So there
// may be twice as many in the end, and no more.
func (b *book) fresh(t *bringer) error {
	who := b.by.get(t.id)
	if who.held() >= b.most/len(b.by.of) && b.count() >= b.most || b.count() >= 2*b.most {
		t.refuse(0)
		return fmt.Errorf("this server takes %d within a day: %s has had its share: %w", b.most, t, errOver)
	}
	if who.returns > 0 && !b.by.told { // of before a restart, most likely
		who.returns--
		return nil
	}
	if wait := who.used.Take(b.now(), t.budget); wait > 0 {
		t.refuse(wait)
		return fmt.Errorf("%s has used up its %d of an hour: %w", t, t.budget, errOver)
	}
	b.by.changed = true
	return nil
}

// older returns a series by its text from the generation before, so that it
// need not be read anew.
func (b *book) older(text []byte) *metric.Series {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if x := b.before[string(text)]; x != nil {
		return x.series
	}
	return nil
}

// forget begins texts anew.
func (b *book) forget() {
	b.texts, b.before = map[string]*spelling{}, b.texts
	b.turns.Add(1)
}

// turn begins a new generation when it is time; texts go with it, so that
// each series that still comes is met anew.
func (b *book) turn() {
	if b.now().Sub(b.known.began) < generationLife {
		return
	}
	b.known = generation{map[int64]struct{}{}, b.known.now, b.now()}
	b.forget()
	b.by.turn(b.now())
}

func (b *book) count() int { return len(b.known.now) + len(b.known.before) }

// size is how many series are known.
func (b *book) size() int {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.count()
}

// met says whether a series is known in the present generation.
func (b *book) met(id int64) bool {
	b.mu.RLock()
	defer b.mu.RUnlock()
	_, ok := b.known.now[id]
	return ok
}

// know notes series that the store holds already, as far as there is room, so
// that they are not new after a restart.
func (b *book) know(ids []int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.by.told = true
	for _, id := range ids {
		if b.count() >= b.most {
			return
		}
		if _, ok := b.known.now[id]; !ok {
			b.known.before[id] = struct{}{}
		}
	}
}

// Know tells of series, by their IDs, that the store holds already: they do
// not count as new. Until it is called, senders may bring again as many as they
// had before the restart.
func (a *API) Know(ids []int64) { a.book.know(ids) }
