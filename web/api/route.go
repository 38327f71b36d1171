package api

import (
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	"headroom/web/auth"
)

// Route is one answer: its address, who may ask, what it takes.
type Route struct {
	Method string
	Path   string     // as http.ServeMux takes it
	Scope  auth.Scope // "": anybody
	Params []string   // query parameters it knows; any other is refused
	// Stream marks answers and bodies without a time limit of their own
	// making: they set their own deadlines.
	Stream bool

	serve func(http.ResponseWriter, *http.Request) error
	api   *API
}

// bodyLimit is for bodies that are no samples.
const bodyLimit = 64 << 10

// Routes lists all answers.
func (a *API) Routes() []Route {
	const v1 = "/api/v1/"
	span := []string{"from", "to"}
	ofHost := []string{"host"}
	list := []Route{
		{Method: "POST", Path: v1 + "ingest", Scope: auth.Write, Params: []string{"host"}, Stream: true, serve: a.ingestLines},
		{Method: "POST", Path: v1 + "ingest/batch", Scope: auth.Write, Stream: true, serve: a.ingestBatches},
		{Method: "POST", Path: v1 + "ingest/live", Scope: auth.Write, Stream: true, serve: a.ingestLive},
		{Method: "POST", Path: v1 + "ingest/state", Scope: auth.Write, Stream: true, serve: a.ingestState},
		{Method: "POST", Path: v1 + "write", Scope: auth.Write, Params: []string{"host"}, Stream: true, serve: a.ingestRemote},
		{Method: "GET", Path: v1 + "query", Scope: auth.Read, Params: append([]string{"match", "step", "points", "func", "by", "agg", "top"}, span...), serve: a.reading(a.query)},
		{Method: "GET", Path: v1 + "series", Scope: auth.Read, Params: append([]string{"match", "limit"}, span...), serve: a.reading(a.series)},
		{Method: "GET", Path: v1 + "labels/{name}", Scope: auth.Read, Params: []string{"match"}, serve: a.reading(a.labels)},
		{Method: "GET", Path: v1 + "findings", Scope: auth.Read, Params: ofHost, serve: a.findings},
		{Method: "GET", Path: v1 + "journal", Scope: auth.Read, serve: a.journal},
		{Method: "GET", Path: v1 + "journal/{id}", Scope: auth.Read, serve: a.journalEntry},
		{Method: "GET", Path: v1 + "trials", Scope: auth.Read, serve: a.trials},
		{Method: "GET", Path: v1 + "trials/{name}", Scope: auth.Read, serve: a.trial},
		{Method: "GET", Path: v1 + "marks", Scope: auth.Read, Params: span, serve: a.reading(a.marks)},
		{Method: "GET", Path: v1 + "gaps", Scope: auth.Read, Params: ofHost, serve: a.gaps},
		{Method: "GET", Path: v1 + "targets", Scope: auth.Read, Params: ofHost, serve: a.targets},
		{Method: "GET", Path: v1 + "sessions", Scope: auth.Read, Params: []string{"host", "server"}, serve: a.sessions},
		{Method: "GET", Path: v1 + "hosts", Scope: auth.Read, serve: a.hosts},
		{Method: "POST", Path: v1 + "hosts/{name}/forget", Scope: auth.Change, serve: a.forgetHost},
		{Method: "GET", Path: v1 + "dead", Scope: auth.Read, Params: []string{"before", "limit"}, serve: a.dead},
		{Method: "POST", Path: v1 + "dead/retry", Scope: auth.Change, serve: a.deadRetry},
		{Method: "POST", Path: v1 + "dead/drop", Scope: auth.Change, serve: a.deadDrop},
		{Method: "GET", Path: v1 + "status", Scope: auth.Read, serve: a.status},
		{Method: "GET", Path: v1 + "live", Scope: auth.Read, Params: []string{"match", "since"}, Stream: true, serve: a.live},
		{Method: "POST", Path: v1 + "plans", Scope: auth.Read, serve: a.plan},
		{Method: "GET", Path: v1 + "plans/{id}", Scope: auth.Read, serve: a.planShow},
		{Method: "POST", Path: v1 + "plans/{id}/apply", Scope: auth.Change, Stream: true, serve: a.applyPlan},
		{Method: "POST", Path: v1 + "changes/{id}/confirm", Scope: auth.Change, Stream: true, serve: a.confirmChange},
		{Method: "POST", Path: v1 + "changes/{id}/revert", Scope: auth.Change, Stream: true, serve: a.revertChange},
		{Method: "GET", Path: v1 + "healthz", serve: a.healthz},
		{Method: "GET", Path: v1 + "openapi.yaml", Scope: auth.Read, serve: a.openapi},
		{Method: "GET", Path: "/metrics", Scope: auth.Read, serve: a.metrics},
	}
	for i := range list {
		list[i].api = a
	}
	return list
}

// ServeHTTP answers. Who may ask was decided before.
func (rt Route) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	cw := &counted{ResponseWriter: w}
	err := rt.known(r)
	if err == nil {
		if !rt.Stream {
			r.Body = http.MaxBytesReader(cw, r.Body, bodyLimit)
		}
		err = rt.serve(cw, r)
	}
	if err != nil {
		WriteError(cw, err)
	}
	rt.api.countAnswer(cw.status)
}

// known refuses parameters that the route does not know: a slip of the pen
// would otherwise be a wrong answer.
func (rt Route) known(r *http.Request) error {
	q, err := parseQuery(r)
	if err != nil {
		return err
	}
	for name, values := range q {
		if !slices.Contains(rt.Params, name) {
			hint := "this one takes none"
			if len(rt.Params) > 0 {
				hint = "there are: " + strings.Join(rt.Params, ", ")
			}
			return refuse(http.StatusBadRequest, hint, "unknown parameter %.60q", name)
		}
		if len(values) > 1 && name != "match" {
			return refuse(http.StatusBadRequest, "", "parameter %s is given %d times", name, len(values))
		}
	}
	return nil
}

// counted remembers the status of an answer.
type counted struct {
	http.ResponseWriter
	status int
}

func (c *counted) WriteHeader(status int) {
	if c.status == 0 {
		c.status = status
	}
	c.ResponseWriter.WriteHeader(status)
}

func (c *counted) Write(b []byte) (int, error) {
	if c.status == 0 {
		c.status = http.StatusOK
	}
	return c.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach the connection.
func (c *counted) Unwrap() http.ResponseWriter { return c.ResponseWriter }

func (a *API) countAnswer(status int) {
	class := "2xx"
	if status >= 300 {
		class = string(rune('0'+status/100)) + "xx"
	}
	n, _ := a.answered.LoadOrStore(class, new(atomic.Int64))
	n.(*atomic.Int64).Add(1)
}
