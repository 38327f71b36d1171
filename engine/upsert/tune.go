package upsert

import (
	"slices"
	"time"
)

// Tuning waits before it begins, so that a short run is spent on work, and then
// compares in windows of this length.
const (
	tuneAfter  = 2 * time.Second
	tuneWindow = 400 * time.Millisecond
	// better is by how much a setting must beat the present one: less than
	// that is noise.
	better = 1.05
	// pressed is the share of a window that Add must have waited: else what
	// comes in is the limit, and no setting makes it more.
	pressed = 0.1
)

// knobs is what is tuned.
type knobs struct{ batch, width, form int }

// climber looks for better knobs by trying one neighbour at a time, in windows
// that alternate with such of the present ones. A neighbour must beat the
// present in every window, and by a margin in the mean: on a busy machine
// rates swing by more than most settings matter, and a climber that believes
// single windows wanders.
type climber struct {
	base, low, high knobs
	next            knobs
	move            int
	failed          int       // moves in a row
	present, tried  []float64 // rates of the comparison under way
	rest, idle      int       // windows to leave alone
}

// looks is the number of windows that a neighbour must win.
const looks = 4

// step takes the rate of the window that is over, with what at() said before,
// and readies at() for the next.
func (c *climber) step(rate float64) {
	if len(c.present) == 0 && c.idle > 0 {
		c.idle--
		return
	}
	if c.trying() {
		c.tried = append(c.tried, rate)
	} else {
		c.present = append(c.present, rate)
	}
	switch {
	case len(c.present) == 1 && len(c.tried) == 0:
		if !c.propose() {
			c.interrupted()
		}
	case slices.Min(c.tried) <= slices.Max(c.present):
		c.interrupted()
		c.fail()
	case len(c.present) == looks+1:
		if mean(c.tried) > better*mean(c.present) {
			c.base, c.failed, c.rest = c.next, 0, 0 // and on in the same direction
		} else {
			c.fail()
		}
		c.interrupted()
	}
}

func mean(v []float64) (m float64) {
	for _, x := range v {
		m += x / float64(len(v))
	}
	return m
}

// trying says that the window under way is one of the neighbour.
func (c *climber) trying() bool { return len(c.present) > len(c.tried) }

func (c *climber) at() knobs {
	if c.trying() {
		return c.next
	}
	return c.base
}

// interrupted forgets a comparison under way.
func (c *climber) interrupted() { c.present, c.tried = c.present[:0], c.tried[:0] }

const moves = 5

// propose chooses the next neighbour; false if none is left for now.
func (c *climber) propose() bool {
	for range moves {
		n := c.base
		switch c.move {
		case 0:
			n.batch = min(2*n.batch, c.high.batch)
		case 1:
			n.width = min(n.width+1, c.high.width)
		case 2:
			n.batch = max(n.batch/2, c.low.batch)
		case 3:
			n.width = max(n.width-1, c.low.width)
		case 4:
			n.form = (n.form + 1) % (c.high.form + 1)
		}
		if n != c.base {
			c.next = n
			return true
		}
		c.fail()
	}
	return false
}

// fail turns to the next move, and rests, longer each time, after all of them.
func (c *climber) fail() {
	c.move = (c.move + 1) % moves
	if c.failed++; c.failed >= moves {
		c.failed = 0
		c.rest = min(max(2*c.rest, 8), 128)
		c.idle = c.rest
	}
}

// bounds are the knobs to begin with and their limits.
func (w *Writer) bounds() (c climber, forms []form) {
	forms = []form{w.form}
	if w.opt.Strategy == Auto {
		other := stagingForm
		if w.form == mergeForm {
			other = stagedMerge
		}
		forms = append(forms, other)
	}
	c.base = knobs{w.batch, w.width, 0}
	c.low, c.high = c.base, c.base
	if w.opt.Batch == 0 {
		c.low.batch, c.high.batch = 1000, 16_000
	}
	if w.opt.Connections == 0 {
		c.low.width, c.high.width = min(2, len(w.lanes)), len(w.lanes)
	}
	c.high.form = len(forms) - 1
	return c, forms
}

// widths are the numbers of lanes that may be in use, of n.
func (w *Writer) widths(n int) []int {
	if w.opt.Connections != 0 || w.plan.vague {
		return []int{n}
	}
	var all []int
	for i := 1; i <= n; i++ {
		all = append(all, i)
	}
	return all
}

// tune runs until the writer ends.
func (w *Writer) tune() {
	w.mu.Lock()
	c, forms := w.bounds()
	w.mu.Unlock()
	if c.low == c.high {
		return
	}
	if pause(w.ctx, tuneAfter) != nil {
		return
	}
	for {
		if !w.turn(c.at(), forms) {
			return
		}
		from, waited, start := w.progress()
		if pause(w.ctx, tuneWindow) != nil {
			return
		}
		to, waits, took := w.progress()
		d := took.Sub(start)
		if (waits - waited).Seconds() < pressed*d.Seconds() {
			c.interrupted()
			continue
		}
		c.step(float64(to-from) / d.Seconds())
	}
}

// progress is the rows that are in, the time Add waited, and now.
func (w *Writer) progress() (rows int64, waited time.Duration, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now = time.Now()
	waited = w.blocked
	if !w.waiting.IsZero() {
		waited += now.Sub(w.waiting)
	}
	return w.stats.done, waited, now
}

// turn sets the knobs; false if the writer ended. For another number of
// connections all that is under way must be in first: the keys move.
func (w *Writer) turn(k knobs, forms []form) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.batch, w.form = k.batch, forms[k.form]
	if k.width == w.width {
		return w.err == nil
	}
	w.paused = true
	defer func() {
		w.paused = false
		w.change.Broadcast()
	}()
	for _, l := range w.lanes {
		l.submit()
	}
	err := w.await(w.ctx, func() bool {
		for _, l := range w.lanes {
			if l.finished < l.submitted {
				return false
			}
		}
		return true
	})
	if err != nil {
		return false
	}
	w.width = k.width
	return true
}
