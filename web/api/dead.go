package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"headroom/queue"
	"headroom/queue/letter"
)

// DeadMost is how many dead letters one request may ask for, or name.
const DeadMost = 200

// dead lists what the store will never take as it is.
func (a *API) dead(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	n := DeadMost
	if text := q.Get("limit"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil || n < 1 || n > DeadMost {
			return refuse(http.StatusBadRequest, "", "parameter limit is %.20q: want 1 to %d", text, DeadMost)
		}
	}
	list, err := letter.List(r.Context(), a.Queue, q.Get("before"), n)
	if err != nil {
		return deadError(err)
	}
	writeJSON(w, http.StatusOK, map[string]any{"letters": list})
	return nil
}

func (a *API) deadRetry(w http.ResponseWriter, r *http.Request) error {
	return a.deadEach(w, r, letter.Retry)
}

func (a *API) deadDrop(w http.ResponseWriter, r *http.Request) error {
	return a.deadEach(w, r, letter.Drop)
}

func (a *API) deadEach(w http.ResponseWriter, r *http.Request, do func(context.Context, queue.Queue, []string) (letter.Outcome, error)) error {
	var ask struct {
		IDs []string `json:"ids"`
	}
	if err := readJSON(r, &ask); err != nil {
		return err
	}
	if len(ask.IDs) < 1 || len(ask.IDs) > DeadMost {
		return refuse(http.StatusBadRequest, "GET /api/v1/dead lists them", "want 1 to %d ids, there are %d", DeadMost, len(ask.IDs))
	}
	out, err := do(r.Context(), a.Queue, ask.IDs)
	if err != nil {
		return deadError(err)
	}
	writeJSON(w, http.StatusOK, out)
	return nil
}

func deadError(err error) error {
	switch {
	case errors.Is(err, queue.ErrNoLetter):
		return refuse(http.StatusNotFound, "GET /api/v1/dead lists them", "%w", err)
	case errors.Is(err, queue.ErrFull), errors.Is(err, queue.ErrDiskFull), errors.Is(err, queue.ErrStopped):
		return later(30*time.Second, "it stays a dead letter; try again when the queue takes samples", err)
	}
	return fmt.Errorf("dead letters: %w", err)
}
