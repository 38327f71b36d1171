package api

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"headroom/web/auth"
)

// senders are those who brought series within a day or two, by the token that
// they have.
type senders struct {
	of      map[string]*sender
	told    bool // the series that the store holds are known
	changed bool // since they were kept last
}

type sender struct {
	used           auth.Used
	active, before int       // series that came with it in this generation, and in the one before only
	returns        int       // series it had before a restart and may bring again
	warned         time.Time // when the log said that its budget is used up
}

func (s *senders) get(id string) *sender {
	one := s.of[id]
	if one == nil {
		one = &sender{}
		s.of[id] = one
	}
	return one
}

// met counts a series that came with the sender; old says that it came in the
// generation before.
func (s *sender) met(old bool) {
	s.active++
	if old && s.before > 0 {
		s.before--
	}
}

// held is how many of the series that are known came with the sender.
func (s *sender) held() int { return s.active + s.before }

// turn begins a new generation; who brought nothing in the last one is
// forgotten.
func (s *senders) turn(now time.Time) {
	for id, one := range s.of {
		if one.active == 0 && now.Sub(one.used.At) > time.Hour {
			delete(s.of, id)
			continue
		}
		one.before, one.active = one.active, 0
	}
	s.changed = true
}

// bringer is who brings one request's series.
type bringer struct {
	id, name string
	budget   int // new series an hour

	refused int           // new series for which there was no budget
	wait    time.Duration // until there is some; 0: not known
}

func (a *API) newBringer(ctx context.Context) *bringer {
	w := auth.From(ctx)
	return &bringer{id: cmp.Or(w.Token, w.ID), name: w.Name, budget: cmp.Or(w.Series, auth.DefaultSeries)}
}

func (t *bringer) String() string { return fmt.Sprintf("token %q", t.name) }

func (t *bringer) refuse(wait time.Duration) {
	t.refused++
	t.wait = max(t.wait, wait, time.Second)
}

// wayOut is what to do about a budget that is used up.
func (t *bringer) wayOut() string {
	return fmt.Sprintf("series that are known go on. A label that never repeats (a request's id, a time) is the usual cause: drop it where it is made; if there are that many, give the token more: headroom up token series %s N", t.name)
}

// overBudget counts what a request could not bring, and says so once an hour.
func (a *API) overBudget(t *bringer) {
	if t.refused == 0 {
		return
	}
	a.counts.over.Add(int64(t.refused))
	if a.book.warn(t) {
		a.Log(fmt.Sprintf("%s has used up its budget of %d new series an hour (or its share of all): new ones are refused; %s", t, t.budget, t.wayOut()))
	}
}

// warn says whether the sender's trouble is news: it is, once an hour.
func (b *book) warn(t *bringer) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	one := b.by.get(t.id)
	now := b.now()
	if now.Sub(one.warned) < time.Hour {
		return false
	}
	one.warned = now
	return true
}

// usage is what senders have used up, for the file; nil if nothing changed
// since it was asked for last.
func (b *book) usage() map[string]auth.Used {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.by.changed {
		return nil
	}
	b.by.changed = false
	out := make(map[string]auth.Used, len(b.by.of))
	for id, one := range b.by.of {
		u := one.used
		u.Active = max(one.held(), one.returns)
		out[id] = u
	}
	return out
}

// remember takes up what was used before a restart.
func (b *book) remember(kept map[string]auth.Used) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for id, u := range kept {
		b.by.of[id] = &sender{used: u, returns: min(u.Active, b.most)}
	}
}

// usageEvery is how often what is used up is kept, if it changed.
const usageEvery = 10 * time.Second

// keepUsage takes up what was kept, and keeps it from then on until the API is
// closed. A file that cannot be read is told of and made anew.
func (a *API) keepUsage() {
	kept, err := a.Usage.Get()
	if err != nil {
		a.Log("the budgets of new series begin anew: " + err.Error())
	}
	a.book.remember(kept)
	a.background.Go(func() {
		tick := time.NewTicker(usageEvery)
		defer tick.Stop()
		for ended := false; !ended; {
			select {
			case <-tick.C:
			case <-a.life.Done():
				ended = true
			}
			if u := a.book.usage(); u != nil {
				if err := a.Usage.Set(u); err != nil {
					a.Log("what tokens used of their budgets is not kept: " + err.Error())
				}
			}
		}
	})
}
