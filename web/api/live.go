package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"headroom/metric"
	"headroom/store"
	"headroom/web/auth"
	"headroom/web/live"
)

// streams counts the live streams there are, by who opened them.
type streams struct {
	mu  sync.Mutex
	all int
	by  map[string]int
}

func (s *streams) enter(who string, l Limits) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.by[who] >= l.StreamsOne {
		return &fault{error: fmt.Errorf("%d live streams are open for this session or token, no more are given", l.StreamsOne), status: http.StatusTooManyRequests, retry: 10 * time.Second}
	}
	if s.all >= l.Streams {
		return later(30*time.Second, "close other pages", fmt.Errorf("%d live streams are open, no more are given", l.Streams))
	}
	s.all++
	s.by[who]++
	return nil
}

func (s *streams) leave(who string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all--
	if s.by[who]--; s.by[who] == 0 {
		delete(s.by, who)
	}
}

const (
	heartbeat    = 15 * time.Second // so that both ends notice the other's death
	streamWrite  = 10 * time.Second // a reader that takes longer is cut off
	recentSeries = 2_000            // series sent at the beginning of a stream
)

// live sends samples as they are acknowledged, after those of the last
// minutes, as server-sent events.
func (a *API) live(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	filter, err := liveFilter(q["match"])
	if err != nil {
		return err
	}
	since := a.Now()
	if v := q.Get("since"); v != "" {
		if since, err = parseWhen("since", v, since); err != nil {
			return err
		}
	}
	who := auth.From(r.Context()).ID
	if err := a.streams.enter(who, a.Limits); err != nil {
		return err
	}
	defer a.streams.leave(who)
	ctx, stop := context.WithCancel(r.Context())
	defer stop()
	s := &stream{w: w, c: http.NewResponseController(w), look: a.looker(q["match"])}
	defer s.close()
	sub := a.Hub.Subscribe(ctx, filter, func() { s.cut(); stop() })
	recent, more := a.Hub.Recent(filter, since, recentSeries)
	release, ok := sub.Hold(recent)
	if !ok {
		return later(30*time.Second, "ask for a narrower match, or for less of the past", errors.New("slow readers hold all that live streams may take"))
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // nginx would hold events back
	s.rows("recent", fmt.Sprintf(`"more":%t,`, more), recent)
	recent = nil
	release()
	s.run(sub.Updates(), a.life.Done())
	return nil
}

func liveFilter(texts []string) (live.Filter, error) {
	if len(texts) > 1 {
		return live.Filter{}, refuse(http.StatusBadRequest, "use =~ with alternatives: {__name__=~`a|b`}", "a live stream takes one match")
	}
	var ms []store.Match
	if len(texts) == 1 {
		var err error
		if ms, err = parseSelector(texts[0]); err != nil {
			return live.Filter{}, err
		}
	}
	return live.NewFilter(ms)
}

// stream is one open line to a reader.
type stream struct {
	w    http.ResponseWriter
	c    *http.ResponseController
	look func() // tells that somebody looks still
	dead bool

	mu      sync.Mutex
	writing bool
	slow    bool // it was cut off
	closed  bool
}

// tooSlow is told to a reader that is cut off, if it reads that.
const tooSlow = `{"reason":"this reader is too slow: too much waits for it"}`

// cut ends a write that is under way; the next ones are not begun.
func (s *stream) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.slow = true
	if s.writing && !s.closed {
		_ = s.c.SetWriteDeadline(time.Now()) // possible where it was possible before
	}
}

// close says that the answer is over.
func (s *stream) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
}

// begin gives a reader the time for one event; false if it has none any more.
func (s *stream) begin(patience time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead || s.slow {
		return false
	}
	s.writing = true
	_ = s.c.SetWriteDeadline(time.Now().Add(patience)) // what has no deadline fails in Flush
	return true
}

func (s *stream) end(err error) {
	if err == nil {
		err = s.c.Flush()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writing, s.dead = false, err != nil
}

// run sends until the reader goes or is too slow, or the server ends.
func (s *stream) run(updates <-chan live.Update, end <-chan struct{}) {
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	s.look()
	for !s.dead {
		select {
		case u, open := <-updates:
			if !open {
				s.last()
				return
			}
			if u.Skipped > 0 {
				s.send("skipped", fmt.Appendf(nil, `{"updates":%d}`, u.Skipped))
			}
			if text := u.Encoded(encodeEvent); text != nil {
				s.send("points", text)
			} else {
				s.rows("points", "", u.Rows)
			}
			u.Done()
		case <-beat.C:
			s.look()
			s.write([]byte(": still here\n\n"))
		case <-end:
			s.send("end", []byte(`{"reason":"the server stops"}`))
			return
		}
	}
}

// last tells a reader that was cut off between two events why.
func (s *stream) last() {
	s.mu.Lock()
	slow := s.slow
	s.slow = false
	s.mu.Unlock()
	if slow && s.begin(time.Second) {
		_, err := s.w.Write([]byte("event: end\ndata: " + tooSlow + "\n\n"))
		s.end(err)
	}
}

func (s *stream) send(event string, data []byte) {
	s.write([]byte("event: "+event+"\ndata: "), data, []byte("\n\n")) // JSON in one line
}

// write sends the parts of one event.
func (s *stream) write(parts ...[]byte) {
	if !s.begin(streamWrite) {
		return
	}
	var err error
	for i := 0; i < len(parts) && err == nil; i++ {
		_, err = s.w.Write(parts[i])
	}
	s.end(err)
}

// rowsPiece is how much of the text of rows is held.
const rowsPiece = 32 << 10

// rows sends an event with rows, bit by bit; before stands in front of them.
func (s *stream) rows(event, before string, rows []metric.Row) {
	if !s.begin(streamWrite) {
		return
	}
	b := append(make([]byte, 0, rowsPiece+4096), "event: "+event+"\ndata: {"+before+`"rows":[`...)
	var err error
	for i := range rows {
		if b = appendRow(comma(b, i), &rows[i]); len(b) >= rowsPiece {
			if _, err = s.w.Write(b); err != nil {
				break
			}
			b = b[:0]
		}
	}
	if err == nil {
		_, err = s.w.Write(append(b, "]}\n\n"...))
	}
	s.end(err)
}

func encodeEvent(rows []metric.Row) []byte {
	return append(append([]byte(`{"rows":`), encodeRows(rows)...), '}')
}

// encodeRows writes [{"key":…,"name":…,"labels":{…},"points":[[ms,value],…]},…].
func encodeRows(rows []metric.Row) []byte {
	b := []byte{'['}
	for i := range rows {
		b = appendRow(comma(b, i), &rows[i])
	}
	return append(b, ']')
}

func appendRow(b []byte, r *metric.Row) []byte {
	b = append(b, `{"key":`...)
	key, _ := json.Marshal(r.Series.Key()) // a string cannot fail
	b = append(b, key...)
	b = append(b, `,"name":`...)
	b = appendQuoted(b, r.Series.Name)
	b = append(b, `,"labels":`...)
	b = appendLabels(b, r.Series.Labels)
	b = append(b, `,"points":[`...)
	for k, p := range r.Points {
		b = comma(b, k)
		b = append(b, '[')
		b = strconv.AppendInt(b, p.At, 10)
		b = append(b, ',')
		b = appendNumber(b, p.Value)
		b = append(b, ']')
	}
	return append(b, ']', '}')
}
