package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"headroom/host"
	"headroom/store"
)

// readTime is how long an answer may wait for the store; the store's server
// itself gives up a question after 30 s.
const readTime = 40 * time.Second

// clientGone is nginx's status for an answer that nobody waits for.
const clientGone = 499

// reading is an answer that is made of what the store holds: it ends in time,
// and the trouble of the store's server is told as 503, with when to ask
// again, and not as a fault of this program.
func (a *API) reading(answer func(http.ResponseWriter, *http.Request) error) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		ctx, stop := context.WithTimeout(r.Context(), a.Limits.Reading)
		defer stop()
		err := answer(w, r.WithContext(ctx))
		var f *fault
		switch {
		case err == nil || errors.As(err, &f):
			return err
		case r.Context().Err() != nil:
			return &fault{error: err, status: clientGone}
		case ctx.Err() != nil:
			return away(fmt.Errorf("it did not answer within %s: %w", a.Limits.Reading, err))
		case store.IsTooSlow(err):
			return refuse(http.StatusGatewayTimeout, "ask for a shorter span, a longer step or fewer series", "the store took too long: %v", err)
		case store.IsAway(err):
			return away(err)
		}
		return err
	}
}

// away is the answer while the store or its server cannot be asked.
func away(why error) error {
	return later(5*time.Second, "samples wait in the queue meanwhile; GET /api/v1/live shows the newest", fmt.Errorf("the store is not there now: %w", host.Plainly(why)))
}
