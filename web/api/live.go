package api

import (
	"context"
	"encoding/json"
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
	updates := a.Hub.Subscribe(ctx, filter)
	recent, more := a.Hub.Recent(filter, since, recentSeries)
	s := stream{w: w, c: http.NewResponseController(w), look: a.looker(q["match"])}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // nginx would hold events back
	s.send("recent", fmt.Appendf(nil, `{"more":%t,"rows":%s}`, more, encodeRows(recent)))
	s.run(updates, a.life.Done())
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
				return
			}
			if u.Skipped > 0 {
				s.send("skipped", fmt.Appendf(nil, `{"updates":%d}`, u.Skipped))
			}
			s.send("points", u.Encoded(encodeEvent))
		case <-beat.C:
			s.look()
			s.write([]byte(": still here\n\n"))
		case <-end:
			s.send("end", []byte(`{"reason":"the server stops"}`))
			return
		}
	}
}

func (s *stream) send(event string, data []byte) {
	b := make([]byte, 0, len(event)+len(data)+32)
	b = append(b, "event: "...)
	b = append(b, event...)
	b = append(b, "\ndata: "...)
	b = append(b, data...) // JSON in one line
	s.write(append(b, "\n\n"...))
}

func (s *stream) write(b []byte) {
	if s.dead {
		return
	}
	_ = s.c.SetWriteDeadline(time.Now().Add(streamWrite)) // what has no deadline fails in Flush
	if _, err := s.w.Write(b); err != nil {
		s.dead = true
		return
	}
	s.dead = s.c.Flush() != nil
}

func encodeEvent(rows []metric.Row) []byte {
	return append(append([]byte(`{"rows":`), encodeRows(rows)...), '}')
}

// encodeRows writes [{"key":…,"name":…,"labels":{…},"points":[[ms,value],…]},…].
func encodeRows(rows []metric.Row) []byte {
	b := []byte{'['}
	for i, r := range rows {
		b = comma(b, i)
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
		b = append(b, ']', '}')
	}
	return append(b, ']')
}
