package report

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/rivo/uniseg"

	"headroom/trial"
	"headroom/unit"
)

// How often a person is told that the work goes on.
const (
	liveEvery = time.Second
	lineEvery = 10 * time.Second
)

// Progress tells a person how far long work is: one line that is drawn over
// on a terminal; elsewhere a line when something new begins and every 10 s.
// It is safe for concurrent use.
type Progress struct {
	w     io.Writer
	p     printer
	every time.Duration
	start time.Time
	stop  chan struct{}
	ended sync.WaitGroup

	mu    sync.Mutex
	title string // what is being done
	text  string // how far it is
	last  time.Time
	drawn bool
	over  bool
}

// NewProgress begins to tell on w, normally standard error; env is os.Getenv.
// Done must be called.
func NewProgress(w io.Writer, env func(string) string) *Progress {
	p := &Progress{w: w, p: printer{t: TerminalOf(w, env)}, every: lineEvery, start: time.Now(), stop: make(chan struct{})}
	if p.p.t.Live {
		p.every = liveEvery
	}
	p.ended.Add(1)
	go p.tick()
	return p
}

func (p *Progress) tick() {
	defer p.ended.Done()
	t := time.NewTicker(p.every)
	defer t.Stop()
	for {
		select {
		case <-p.stop:
			return
		case <-t.C:
			p.mu.Lock()
			if time.Since(p.last) >= p.every {
				p.draw()
			}
			p.mu.Unlock()
		}
	}
}

// Say tells what is being done now.
func (p *Progress) Say(what string) { p.show(what, "") }

// Event tells how far a trial is.
func (p *Progress) Event(e trial.Event) {
	if strings.HasPrefix(e.Text, trial.Found) {
		p.Note(e.Text)
		return
	}
	title, text := string(e.Phase), e.Text
	if e.Blocks > 0 {
		title = fmt.Sprintf("%s, block %d of %d", e.Phase, e.Block, e.Blocks)
	}
	for _, est := range e.Estimates {
		if bounded(est.Ratio) {
			text += fmt.Sprintf("  %s %s × (%s)", est.Arm, times(est.Ratio.Center), span(est.Ratio))
		}
	}
	if e.Left > 0 {
		text += "  at most " + unit.Seconds(e.Left.Round(time.Second).Seconds()) + " left"
	}
	for _, m := range e.Marks {
		text += "  disturbed: " + m.Text
	}
	p.show(title, strings.TrimSpace(text))
}

// show draws at once on a terminal, and where nothing can be drawn over only
// if something new has begun or it was quiet for long enough.
func (p *Progress) show(title, text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fresh := phaseOf(title) != phaseOf(p.title)
	p.title, p.text = title, text
	if p.p.t.Live || fresh || time.Since(p.last) >= p.every {
		p.draw()
	}
}

// phaseOf is a title without its count.
func phaseOf(title string) string {
	phase, _, _ := strings.Cut(title, ", block ")
	return phase
}

// draw writes the line; p.mu is held.
func (p *Progress) draw() {
	if p.over || p.title == "" {
		return
	}
	p.last = time.Now()
	passed := time.Since(p.start).Round(time.Second)
	line := fmt.Sprintf("%d:%02d  %s", int(passed.Minutes()), int(passed.Seconds())%60, clean(p.title))
	if p.text != "" {
		line += "  " + clean(p.text)
	}
	line = p.p.glyphs(line)
	if !p.p.t.Live {
		fmt.Fprintln(p.w, line)
		return
	}
	fmt.Fprint(p.w, "\r\x1b[K"+p.p.paint(dim, cut(line, p.p.t.Width-1)))
	p.drawn = true
}

// Note writes a line that stays, above the live one.
func (p *Progress) Note(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wipe()
	fmt.Fprintln(p.w, p.p.glyphs(clean(text)))
	if p.p.t.Live {
		p.draw()
	}
}

// wipe takes the live line away; p.mu is held.
func (p *Progress) wipe() {
	if p.drawn {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.drawn = false
	}
}

// Done takes the live line away and ends the telling. It may be called again.
func (p *Progress) Done() {
	p.mu.Lock()
	p.wipe()
	first := !p.over
	p.over = true
	p.mu.Unlock()
	if first {
		close(p.stop)
	}
	p.ended.Wait()
}

// cut shortens a line to so many columns.
func cut(s string, width int) string {
	if wide(s) <= width {
		return s
	}
	var b strings.Builder
	used := 0
	for g := uniseg.NewGraphemes(s); g.Next(); {
		if used+g.Width() > width {
			break
		}
		used += g.Width()
		b.WriteString(g.Str())
	}
	return b.String()
}
