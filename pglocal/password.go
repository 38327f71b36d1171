package pglocal

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"

	"github.com/jackc/pgx/v5"
)

// setPassword gives the superuser a random password and writes it to the
// password file. It goes to the server over the unix socket. A standby has
// its primary's.
func (s *Server) setPassword(ctx context.Context) error {
	passfile := filepath.Join(s.dir, "pgpass")
	if s.primary != nil {
		line, err := os.ReadFile(s.primary.Conn.Passfile)
		if err != nil {
			return fmt.Errorf("read the primary's password: %w", err)
		}
		s.Conn.Passfile = passfile
		return os.WriteFile(passfile, line, 0o600)
	}
	password := rand.Text()
	c, err := pgx.Connect(ctx, s.DSN())
	if err != nil {
		return fmt.Errorf("set the server's password: %w", err)
	}
	defer func() { _ = c.Close(context.WithoutCancel(ctx)) }()
	// rand.Text is letters and digits: nothing to quote. The log must be told
	// to keep quiet in a statement of its own, before, for the settings may
	// have every statement logged.
	for _, sql := range []string{
		"set log_statement = none; set log_min_duration_statement = -1; set log_min_duration_sample = -1; set log_duration = off",
		"set password_encryption = 'scram-sha-256'",
		"alter role postgres password '" + password + "'",
	} {
		if _, err := c.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol); err != nil {
			return fmt.Errorf("set the server's password: %w", err)
		}
	}
	s.Conn.Passfile = passfile
	line := "127.0.0.1:*:*:postgres:" + password + "\n"
	if err := os.WriteFile(s.Conn.Passfile, []byte(line), 0o600); err != nil {
		return fmt.Errorf("keep the server's password: %w", err)
	}
	return nil
}
