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
// password file. It goes to the server over the unix socket.
func (s *Server) setPassword(ctx context.Context) error {
	password := rand.Text()
	c, err := pgx.Connect(ctx, s.DSN())
	if err != nil {
		return fmt.Errorf("set the server's password: %w", err)
	}
	defer func() { _ = c.Close(context.WithoutCancel(ctx)) }()
	// rand.Text is letters and digits: nothing to quote. The log keeps quiet
	// about it even where the settings log every statement.
	_, err = c.Exec(ctx, "set log_statement = none; set log_min_duration_statement = -1; set password_encryption = 'scram-sha-256'; alter role postgres password '"+password+"'", pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		return fmt.Errorf("set the server's password: %w", err)
	}
	s.Conn.Passfile = filepath.Join(s.dir, "pgpass")
	line := fmt.Sprintf("127.0.0.1:%d:*:postgres:%s\n", s.Conn.Port, password)
	if err := os.WriteFile(s.Conn.Passfile, []byte(line), 0o600); err != nil {
		return fmt.Errorf("keep the server's password: %w", err)
	}
	return nil
}
