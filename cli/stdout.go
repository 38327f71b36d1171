package cli

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"syscall"
)

// stdout is standard output for text that is printed without a look at the
// error: the first one is kept, and Main tells it.
type stdout struct {
	to  io.Writer
	mu  sync.Mutex
	err error
}

// Write implements io.Writer. A reader that has enough and closes the pipe is
// no error.
func (s *stdout) Write(b []byte) (int, error) {
	n, err := s.to.Write(b)
	if err != nil && !errors.Is(err, syscall.EPIPE) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.err == nil {
			s.err = err
		}
	}
	return n, err
}

// verdict is the error to tell at the end: err, unless that was told on
// standard output and did not get there.
func (s *stdout) verdict(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var told quiet
	if s.err == nil || err != nil && !errors.As(err, &told) {
		return err
	}
	return fmt.Errorf("print: %w", s.err)
}
