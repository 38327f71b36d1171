package api

import (
	"fmt"
	"sync"
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
	known  generation
	texts  map[string]*metric.Series // as they were written by their senders
	before map[string]*metric.Series // texts of the generation before
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
	return &book{most: most, now: now,
		known: generation{map[int64]struct{}{}, map[int64]struct{}{}, now()},
		texts: map[string]*metric.Series{}, before: map[string]*metric.Series{}}
}

// find returns the series that a text stands for, if it was met before.
func (b *book) find(text []byte) *metric.Series {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.texts[string(text)]
}

// fresh is the new series that one request may still bring.
type fresh struct{ left, most int }

// admit lets a series in: one that is known, or a new one for which there is
// room. text, if not nil, stands for it from now on.
func (b *book) admit(s *metric.Series, text []byte, f *fresh) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.turn()
	id := s.ID()
	if _, ok := b.known.now[id]; !ok {
		if _, ok := b.known.before[id]; !ok {
			if f.left <= 0 {
				return fmt.Errorf("series %.120s is new, and one request may bring %d new ones", s.Key(), f.most)
			}
			if b.count() >= b.most {
				return fmt.Errorf("series %.120s is new, and this server takes %d at most", s.Key(), b.most)
			}
			f.left--
		}
		delete(b.known.before, id)
		b.known.now[id] = struct{}{}
	}
	if text != nil {
		if len(b.texts) >= maxTexts {
			b.texts, b.before = map[string]*metric.Series{}, b.texts
		}
		b.texts[string(text)] = s
	}
	return nil
}

// older returns a series by its text from the generation before, so that it
// need not be read anew.
func (b *book) older(text []byte) *metric.Series {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.before[string(text)]
}

// turn begins a new generation when it is time; texts go with it, so that
// each series that still comes is met anew.
func (b *book) turn() {
	if b.now().Sub(b.known.began) < generationLife {
		return
	}
	b.known = generation{map[int64]struct{}{}, b.known.now, b.now()}
	b.before, b.texts = b.texts, map[string]*metric.Series{}
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
// not count as new. Without it a restart forgets which are known, and only the
// limits of one request hold new ones back.
func (a *API) Know(ids []int64) { a.book.know(ids) }
