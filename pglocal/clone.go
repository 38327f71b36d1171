package pglocal

import (
	"context"
	"errors"
	"fmt"
)

// leftOutAlways belongs to a running server, not to its data.
var leftOutAlways = []string{"postmaster.pid", "postmaster.opts", "pg_replslot"}

// Clone makes a second server with the same data and settings, independent
// from then on. It stops s cleanly for the time of the copy, so clients of s
// lose their connections; s runs again when Clone returns, also on error.
// Where the file system shares blocks (XFS, Btrfs) the copy takes no room.
func (s *Server) Clone(ctx context.Context) (*Server, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, err := s.clone(ctx)
	if err != nil {
		return nil, fmt.Errorf("clone %s: %w", s.opt.Name, err)
	}
	return c, nil
}

func (s *Server) clone(ctx context.Context) (*Server, error) {
	if s.stopped {
		return nil, errors.New("it was stopped for good")
	}
	if s.primary != nil {
		return nil, errors.New("it is a standby; clone its primary, or ask that for another standby")
	}
	size, err := treeSize(s.DataDir)
	if err != nil {
		return nil, err
	}
	if err := needSpace(s.opt.Parent, size+startSpace); err != nil {
		return nil, err
	}
	if err := s.down(ctx); err != nil {
		return nil, err
	}
	c, err := launch(ctx, s.opt, s.prog, s.acct, func(c *Server) error {
		return copyTree(ctx, s.DataDir, c.DataDir, s.acct, leftOutAlways...)
	})
	// The original comes back even after Ctrl-C: its owner will stop it.
	if upErr := s.upLocked(context.WithoutCancel(ctx)); upErr != nil {
		err = errors.Join(err, upErr)
		if c != nil {
			err = errors.Join(err, c.Stop())
		}
		return nil, err
	}
	return c, err
}
