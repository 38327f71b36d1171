package api

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"headroom/metric"
	"headroom/testkit/need"
	"headroom/web/live"
)

// Readers that stall in the middle of an event are cut off long before their
// time is over where they hold too much together, and one that reads goes on.
func TestStalledReadersAreCutOff(t *testing.T) {
	s := serve(t, func(p *Parts) { p.Hub = live.New(live.Options{Bytes: 3 << 20}) })
	b := &metric.Batch{ID: metric.NewID()}
	for i := range 5000 {
		x, err := metric.NewSeries(fmt.Sprintf("m%d", i), []metric.Label{{Name: "host", Value: "web1"}, {Name: "long", Value: strings.Repeat("x", 500)}})
		if err != nil {
			t.Fatal(err)
		}
		b.Rows = append(b.Rows, metric.Row{Series: x, Points: make([]metric.Point, 1)})
	}
	const stalled = 20
	for i := range stalled {
		c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		_ = c.(*net.TCPConn).SetReadBuffer(4 << 10)
		fmt.Fprintf(c, "GET /api/v1/live?match={__name__=~`m[1-9].*|x%d`} HTTP/1.1\r\nHost: x\r\n\r\n", i)
	}
	next := s.events(t, "/api/v1/live?match=m7")
	next() // recent
	got, ended := make(chan float64, 1000), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			event, data := next()
			if event == "points" {
				_, value, _ := strings.Cut(data, ",")
				var v float64
				if _, err := fmt.Sscanf(value[strings.LastIndex(value, ",")+1:], "%g]", &v); err == nil {
					got <- v
				}
			}
			if event == "end" {
				return
			}
		}
	}()
	need.Eventually(t, 10*time.Second, "all look", func() bool { return s.Hub.Lookers() == stalled+1 })
	begin := time.Now()
	for n := 1; s.Hub.Lookers() > stalled/2; n++ {
		if time.Since(begin) > streamWrite*9/10 {
			t.Fatalf("%d look still", s.Hub.Lookers())
		}
		for i := range b.Rows {
			b.Rows[i].Points[0] = metric.Point{At: time.Now().UnixMilli(), Value: float64(n)}
		}
		s.Hub.Publish(b)
		select {
		case v := <-got:
			if v != float64(n) {
				t.Fatalf("the one that reads is shown %v as number %d", v, n)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("number %d is not shown to the one that reads", n)
		}
	}
	s.Close()
	<-ended
}

// A reader that is cut off between two events is told why.
func TestOneThatIsCutOffIsToldWhy(t *testing.T) {
	w := httptest.NewRecorder()
	s := &stream{w: w, c: http.NewResponseController(w), look: func() {}}
	over := make(chan live.Update)
	s.cut()
	close(over)
	s.run(over, nil)
	if text, _ := io.ReadAll(w.Body); string(text) != "event: end\ndata: "+tooSlow+"\n\n" {
		t.Errorf("%q", text)
	}
}
