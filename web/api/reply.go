package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"headroom/fail"
)

// fault is an error that knows its HTTP status.
type fault struct {
	error
	status int
	retry  time.Duration // Retry-After; 0: none
}

func (f *fault) Unwrap() error { return f.error }

// refuse returns an error with a status and a way out.
func refuse(status int, hint, format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	if hint != "" {
		err = fail.Hint(err, "%s", hint)
	}
	return &fault{error: err, status: status}
}

// later returns an error that goes away by itself.
func later(after time.Duration, hint string, cause error) error {
	return &fault{error: fail.Hint(cause, "%s", hint), status: http.StatusServiceUnavailable, retry: after}
}

// statusOf is the HTTP status of an error.
func statusOf(err error) int {
	var f *fault
	var big *http.MaxBytesError
	switch {
	case errors.As(err, &f):
		return f.status
	case errors.As(err, &big):
		return http.StatusRequestEntityTooLarge
	case fail.Code(err) == fail.Usage:
		return http.StatusBadRequest
	case fail.Code(err) == fail.Drift, fail.Code(err) == fail.Locked:
		return http.StatusConflict
	case errors.Is(err, fail.ErrAbsent):
		return http.StatusNotFound
	case errors.Is(err, context.DeadlineExceeded):
		return http.StatusGatewayTimeout
	}
	return http.StatusInternalServerError
}

// WriteError answers with an error: {"error": …, "hint": …}.
func WriteError(w http.ResponseWriter, err error) {
	var f *fault
	if errors.As(err, &f) && f.retry > 0 {
		retryAfter(w, f.retry)
	}
	body := map[string]string{"error": err.Error()}
	if hint := fail.HintOf(err); hint != "" {
		body["hint"] = hint
	}
	writeJSON(w, statusOf(err), body)
}

func retryAfter(w http.ResponseWriter, d time.Duration) {
	w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(d.Seconds()))))
}

// Refuse answers with a status, an error and a hint ("" for none).
func Refuse(w http.ResponseWriter, status int, hint, reason string) {
	WriteError(w, refuse(status, hint, "%s", reason))
}

// writeJSON answers with a value. That the client has gone is nobody's fault.
func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	e := json.NewEncoder(w)
	e.SetEscapeHTML(true)
	_ = e.Encode(v)
}

// parseQuery reads the query string strictly.
func parseQuery(r *http.Request) (url.Values, error) {
	if r.URL.RawQuery == "" {
		return nil, nil
	}
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, refuse(http.StatusBadRequest, "", "read query string: %v", err)
	}
	return q, nil
}

// readJSON reads a small JSON body; fields that are not known are refused.
func readJSON(r *http.Request, into any) error {
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		var big *http.MaxBytesError
		if errors.As(err, &big) {
			return err
		}
		return refuse(http.StatusBadRequest, "", "read body: %v", err)
	}
	if d.More() {
		return refuse(http.StatusBadRequest, "", "read body: text after the JSON object")
	}
	return nil
}

// absent says that a part of the program is not there.
func absent(what string) error {
	return refuse(http.StatusServiceUnavailable, "", "%s: not part of this server", what)
}

// openStore returns the store or a 503 that says why there is none.
func (a *API) openStore() (Store, error) {
	if a.Parts.Store == nil {
		return nil, absent("the store")
	}
	s, err := a.Parts.Store()
	if err != nil {
		return nil, away(err)
	}
	return s, nil
}

// writeCause answers samples of which reading or storing ended early: the
// error, and what was taken before it.
func writeCause(w http.ResponseWriter, r *receipt, cause error) error {
	var f *fault
	if errors.As(cause, &f) && f.retry > 0 {
		retryAfter(w, f.retry)
	}
	r.Error, r.Hint = cause.Error(), fail.HintOf(cause)
	writeJSON(w, statusOf(cause), r)
	return nil
}
