package pglocal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// leftOutOfBackup is what a base backup does not hold, as in pg_basebackup:
// the standby makes it anew, or gets it by streaming (the WAL).
var leftOutOfBackup = append([]string{"backup_label", "backup_manifest", "pg_wal", "pg_dynshmem", "pg_notify", "pg_serial", "pg_snapshots", "pg_stat_tmp", "pg_subtrans"}, leftOutAlways...)

// Standby makes a hot standby of s, with the same settings, and returns when
// it streams. It has a replication slot on s, which Stop of the standby drops.
// s goes on running.
//
// The base backup is a copy of the folder between pg_backup_start and
// pg_backup_stop: that needs no pg_basebackup, which the fetched programs lack.
func (s *Server) Standby(ctx context.Context) (*Server, error) {
	sb, err := s.standby(ctx)
	if err != nil {
		return nil, fmt.Errorf("make a standby of %s: %w", s.opt.Name, err)
	}
	return sb, nil
}

func (s *Server) standby(ctx context.Context) (*Server, error) {
	size, err := treeSize(s.DataDir)
	if err != nil {
		return nil, err
	}
	if err := needSpace(s.opt.Parent, size+startSpace); err != nil {
		return nil, err
	}
	c, err := pgx.Connect(ctx, s.DSN())
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close(context.WithoutCancel(ctx)) }()
	sb, err := launch(ctx, s.opt, s.prog, s.acct, func(sb *Server) error {
		sb.primary = s
		return sb.backup(ctx, c)
	})
	if err != nil {
		return nil, err
	}
	if err := sb.awaitStream(ctx, c); err != nil {
		return nil, errors.Join(err, sb.Stop())
	}
	return sb, nil
}

// slot is the name of a standby's slot and of its connection.
func (s *Server) slot() string { return strings.ReplaceAll(filepath.Base(s.dir), "-", "_") }

// backup fills a standby's data folder over a connection to its primary.
func (s *Server) backup(ctx context.Context, c *pgx.Conn) error {
	// The slot comes first: from its WAL on, nothing is recycled.
	if _, err := c.Exec(ctx, "select pg_create_physical_replication_slot($1, true)", s.slot()); err != nil {
		return fmt.Errorf("make a replication slot: %w", err)
	}
	begin, end := "select pg_backup_start($1, true)", "select labelfile from pg_backup_stop(false)"
	if s.Major < 15 { // named otherwise, and "exclusive" is the default
		begin, end = "select pg_start_backup($1, true, false)", "select labelfile from pg_stop_backup(false, false)"
	}
	if _, err := c.Exec(ctx, begin, s.slot()); err != nil {
		return fmt.Errorf("begin a base backup: %w", err)
	}
	if err := copyTree(ctx, s.primary.DataDir, s.DataDir, s.acct, leftOutOfBackup...); err != nil {
		return err
	}
	var label string
	if err := c.QueryRow(ctx, end).Scan(&label); err != nil {
		return fmt.Errorf("end the base backup: %w", err)
	}
	conf, err := confLines(map[string]string{
		"primary_conninfo":  s.primary.DSN() + " application_name=" + s.slot(),
		"primary_slot_name": s.slot(),
	})
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(s.DataDir)
	if err != nil {
		return fmt.Errorf("configure the standby: %w", err)
	}
	defer root.Close()
	return errors.Join(
		writeIn(root, s.acct, "backup_label", os.O_CREATE|os.O_EXCL, label),
		writeIn(root, s.acct, "standby.signal", os.O_CREATE|os.O_EXCL, ""),
		writeIn(root, s.acct, "postgresql.conf", os.O_APPEND, conf))
}

// awaitStream waits until the primary says that the standby streams.
func (s *Server) awaitStream(ctx context.Context, c *pgx.Conn) error {
	ctx, stop := context.WithTimeout(ctx, readyLimit)
	defer stop()
	for {
		var n int
		err := c.QueryRow(ctx, "select count(*) from pg_stat_replication where application_name = $1 and state = 'streaming'", s.slot()).Scan(&n)
		if n > 0 {
			return nil
		}
		if err == nil && !s.proc.alive() {
			err = s.died(0)
		}
		if err != nil {
			return fmt.Errorf("wait until the standby streams: %w: %s", err, words(s.logFrom(0)))
		}
		select {
		case <-ctx.Done():
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// leavePrimary drops a stopped standby's slot, so that its primary does not
// keep WAL for it. A primary that is gone has no slot to drop.
func (s *Server) leavePrimary() {
	if s.primary == nil {
		return
	}
	ctx, stop := context.WithTimeout(context.Background(), 2*time.Second)
	defer stop()
	c, err := pgx.Connect(ctx, s.primary.DSN())
	if err != nil {
		return
	}
	defer func() { _ = c.Close(ctx) }()
	for {
		_, err := c.Exec(ctx, "select pg_drop_replication_slot(slot_name) from pg_replication_slots where slot_name = $1", s.slot())
		var pe *pgconn.PgError
		if !errors.As(err, &pe) || pe.Code != "55006" { // object_in_use: the primary has not yet seen the standby end
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}
