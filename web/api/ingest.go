package api

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"headroom/agent"
	"headroom/metric"
	"headroom/web/auth"
)

// maxRejects is how many rejects are listed; all are counted.
const maxRejects = 20

// Reject is one point, line or batch that was not taken, and why.
type Reject struct {
	Index  int    `json:"index"`           // of the line (from 1), or of the series or batch (from 0)
	Point  *int   `json:"point,omitempty"` // within it, from 0
	Reason string `json:"reason"`
}

// receipt is the answer to samples.
type receipt struct {
	Accepted int      `json:"accepted"` // points on disk
	Rejected int      `json:"rejected"` // points, lines or batches that were not taken
	Batches  int      `json:"batches"`
	Stale    int      `json:"stale_markers,omitempty"`
	Odd      int      `json:"not_numbers,omitempty"` // NaN and infinities of remote-write, passed over
	Rejects  []Reject `json:"rejects,omitempty"`
	Error    string   `json:"error,omitempty"`
	Hint     string   `json:"hint,omitempty"`
	// Look is what the sender is asked for besides; nil: nobody looks at it.
	Look *agent.Look `json:"look,omitempty"`

	partly int // status where only a part was taken; 0: 207
}

func (r *receipt) reject(index, point int, reason string) {
	r.Rejected++
	if len(r.Rejects) == maxRejects {
		return
	}
	j := Reject{Index: index, Reason: reason}
	if point >= 0 {
		j.Point = &point
	}
	r.Rejects = append(r.Rejects, j)
}

// receive is what every request that brings samples has in common: a place
// among those at work, its body unpacked and bounded, and the receipt of what
// take took of it.
func (a *API) receive(w http.ResponseWriter, r *http.Request, take func(in *intake, body io.Reader) error) error {
	body, done, err := a.openBody(w, r)
	if err != nil {
		return err
	}
	defer done()
	in, err := a.newIntake(r.Context(), r)
	if err != nil {
		return err
	}
	return in.answer(w, take(in, body))
}

// intake is one request that brings samples.
type intake struct {
	*API
	*receipt
	b       *builder
	by      *bringer
	now     time.Time
	ends    int64 // the latest time that is taken, milliseconds
	begins  int64 // the earliest
	host    string
	hostSet []metric.Label // what is added to a series without host
	text    []byte         // scratch: how the sender wrote a series
	last    *spelling      // of the series before
	origin  string         // the host that sent encoded batches
	show    bool           // encoded batches are shown and not stored
}

func (a *API) newIntake(ctx context.Context, r *http.Request) (*intake, error) {
	key, err := batchKey(r)
	if err != nil {
		return nil, err
	}
	host, err := a.senderHost(r)
	if err != nil {
		return nil, err
	}
	now := a.Now()
	in := &intake{API: a, receipt: &receipt{}, now: now, host: host, hostSet: []metric.Label{{Name: "host", Value: host}}}
	in.ends = now.Add(a.Limits.Window.Future).UnixMilli()
	if a.Limits.Window.Past > 0 {
		in.begins = now.Add(-a.Limits.Window.Past).UnixMilli()
	}
	in.by = a.newBringer(ctx)
	in.b = newBuilder(ctx, a, host, key)
	return in, nil
}

// spelled returns the series that a text stands for, if it was met before.
func (in *intake) spelled(text []byte) *metric.Series {
	in.last = in.book.find(in.last, text)
	if in.last == nil {
		return nil
	}
	return in.last.series
}

// admit lets a series in, for which a text stands from now on. It returns the
// one that all share.
func (in *intake) admit(s *metric.Series, text []byte) (*metric.Series, string) {
	err := in.book.admit(s, nil, in.by)
	if err == nil {
		s = in.Decoder.Same(s)
		err = in.book.admit(s, text, in.by)
	}
	if err != nil {
		return nil, err.Error()
	}
	return s, ""
}

// batchKey is what makes a repeated request the same; nil if the sender gave
// nothing. It belongs to the sender: two senders may choose the same.
func batchKey(r *http.Request) ([]byte, error) {
	for _, name := range []string{"X-Headroom-Batch", "Idempotency-Key"} {
		v := r.Header.Get(name)
		if v == "" {
			continue
		}
		if len(v) > 200 {
			return nil, refuse(http.StatusBadRequest, "", "header %s has %d bytes, at most 200 are taken", name, len(v))
		}
		return []byte(auth.From(r.Context()).ID + "\x00" + v + "\x00"), nil
	}
	return nil, nil
}

// senderHost is the label host of series that have none: the parameter host,
// this machine's name for senders on it, else the sender's address.
func (a *API) senderHost(r *http.Request) (string, error) {
	if h := r.URL.Query().Get("host"); h != "" {
		if clean := metric.Clean(h); clean != h || len(h) > metric.MaxOrigin {
			return "", refuse(http.StatusBadRequest, "", "parameter host is not text of up to %d bytes", metric.MaxOrigin)
		}
		return h, nil
	}
	addr, _, err := net.SplitHostPort(r.RemoteAddr)
	ip := net.ParseIP(addr)
	if err != nil || ip == nil || ip.IsLoopback() {
		if a.Host != "" {
			return a.Host, nil
		}
		return "localhost", nil
	}
	return strings.TrimSuffix(addr, "%"), nil
}

// point takes one point, or says why not.
func (in *intake) point(s *metric.Series, at int64, v float64) string {
	if v-v != 0 || at > in.ends || at < in.begins || at <= 0 {
		if why := in.Limits.Window.Why(metric.Point{At: at, Value: v}, in.now); why != "" {
			return why
		}
	}
	in.b.add(s, at, v)
	return ""
}

// answer waits for the disk and tells what became of all. cause is why reading
// ended early; nil if it did not.
func (in *intake) answer(w http.ResponseWriter, cause error) error {
	err := in.b.done()
	in.Accepted, in.Batches = in.b.puts.points, in.b.puts.count
	in.counts.rejected.Add(int64(in.Rejected))
	in.counts.stale.Add(int64(in.Stale))
	in.counts.odd.Add(int64(in.Odd))
	in.overBudget(in.by)
	if cause == nil && err != nil {
		cause = putError(err)
	}
	return in.write(w, cause)
}

// write answers. Where only the budget of new series stood against all of a
// request, it is 429: it may come again later.
func (in *intake) write(w http.ResponseWriter, cause error) error {
	r, status := in.receipt, http.StatusOK
	switch {
	case cause != nil:
		return writeCause(w, r, cause)
	case in.by.refused > 0 && r.Accepted == 0:
		status = http.StatusTooManyRequests
		retryAfter(w, in.by.wait)
	case r.Rejected > 0 && r.Accepted > 0:
		status = cmp.Or(r.partly, http.StatusMultiStatus)
	case r.Rejected > 0:
		status = http.StatusBadRequest
	}
	if r.Rejected > 0 {
		r.Error = fmt.Sprintf("%d not taken, %d points taken", r.Rejected, r.Accepted)
	}
	if in.by.refused > 0 {
		r.Hint = in.by.wayOut()
	}
	writeJSON(w, status, r)
	return nil
}
