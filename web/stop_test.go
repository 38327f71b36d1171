package web

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"headroom/testkit/need"
)

// Answers under way are finished when the server stops; what takes for ever is
// cut, and nothing new is let in.
func TestStopping(t *testing.T) {
	began, goOn := make(chan string, 2), make(chan struct{})
	s := start(t, func(o *Options) {
		o.Pages = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			began <- r.URL.Path
			if r.URL.Path == "/ever" {
				<-r.Context().Done()
				return
			}
			<-goOn
			fmt.Fprint(w, "finished")
		})
	})
	cookie := s.loggedIn(t).Jar.Cookies(mustParse(t, s.URL()))[0]
	ask := func(path string) *bufio.Reader {
		c, err := net.Dial("tcp", s.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: localhost\r\nCookie: %s=%s\r\n\r\n", path, cookie.Name, cookie.Value)
		<-began
		return bufio.NewReader(c)
	}
	soon, ever := ask("/soon"), ask("/ever")
	stopped := time.Now()
	s.stop()
	need.Eventually(t, drainTime, "nothing new is let in", func() bool {
		c, err := net.Dial("tcp", s.Addr().String())
		if err == nil {
			c.Close()
		}
		return err != nil
	})
	close(goOn)
	res, err := http.ReadResponse(soon, nil)
	if err != nil || res.StatusCode != 200 {
		t.Fatalf("the answer under way: %v", err)
	}
	if line, err := ever.ReadString('\n'); err == nil && strings.Contains(line, "200") {
		t.Logf("an answer of nothing: %s", line) // cut off after its context ended
	}
	err = <-s.ended
	s.ended <- nil
	if took := time.Since(stopped); err != nil || took > 3*drainTime {
		t.Errorf("stopping took %s: %v", took, err)
	}
}
