package agent

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"

	"headroom/fail"
	"headroom/metric"
)

// Look is what the other asks for in its answers: somebody looks at this host.
type Look struct {
	Seconds  int      `json:"seconds"`            // for so long, unless it asks again
	Sessions []string `json:"sessions,omitempty"` // servers whose sessions are looked at
}

// Where what is no batch for the store is sent.
const (
	statePath = "/api/v1/ingest/state"
	livePath  = "/api/v1/ingest/live"
)

// ErrOlder says that the other does not know what it was sent.
var ErrOlder = errors.New("the other Headroom does not take this: it is older")

// ErrRefused says that the other does not take what it was sent, and will not.
var ErrRefused = errors.New("the other Headroom refuses it")

// Tell sends one document about this host. ErrOlder: the other has no place
// for it.
func (s *Shipper) Tell(ctx context.Context, body []byte) error {
	return s.told(ctx, statePath, "application/json", bytes.NewReader(body))
}

// Show sends a batch to those who look now. It is not stored, and not sent
// again.
func (s *Shipper) Show(ctx context.Context, b *metric.Batch) error {
	data := b.Encode(nil)
	frame := io.MultiReader(bytes.NewReader(binary.AppendUvarint(nil, uint64(len(data)))), bytes.NewReader(data))
	return s.told(ctx, livePath, shipType, frame)
}

func (s *Shipper) told(ctx context.Context, path, kind string, body io.Reader) error {
	token, err := s.opt.Token()
	if err != nil {
		return err
	}
	a := s.post.post(ctx, token, path, kind, body)
	if a.stored {
		s.looked(a.look)
		return nil
	}
	err = errors.New(a.why)
	switch a.status {
	case http.StatusNotFound, http.StatusMethodNotAllowed:
		err = fmt.Errorf("%w: %s", ErrOlder, a.why)
	case http.StatusBadRequest, http.StatusConflict, http.StatusRequestEntityTooLarge:
		err = fmt.Errorf("%w: %s", ErrRefused, a.why)
	}
	if a.hint != "" {
		err = fail.Hint(err, "%s", a.hint)
	}
	return err
}

// looked hands on what the other asks for.
func (s *Shipper) looked(l *Look) {
	if l != nil && s.opt.Look != nil {
		s.opt.Look(*l)
	}
}
