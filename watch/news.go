package watch

import (
	"context"
	"fmt"
	"time"

	"headroom/agent"
)

const newsEvery = time.Second

// tellShip says when sending stops and when it goes on.
func tellShip(ctx context.Context, s *agent.Shipper, say func(string)) error {
	var since time.Time
	told := false
	tick := time.NewTicker(newsEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		st := s.State()
		switch {
		case st.Paused == "" && told:
			say(fmt.Sprintf("sending again, after %s", time.Since(since).Round(time.Second)))
			fallthrough
		case st.Paused == "":
			since, told = time.Time{}, false
		case since.IsZero():
			since = time.Now()
		case !told && time.Since(since) > 2*time.Second:
			told = true
			text := "what is read waits here: " + st.Paused
			if st.Hint != "" {
				text += "; " + st.Hint
			}
			say(text)
		}
	}
}
