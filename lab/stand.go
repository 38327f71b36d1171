package lab

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"headroom/fail"
	"headroom/host"
	"headroom/pglocal"
	"headroom/trial"
	"headroom/unit"
)

// Stand is the place of one or more arms: a private server, or nothing but
// this machine.
type Stand struct {
	DSN      string // how to connect to the server; "" without one
	Settings map[string]string

	server  *pglocal.Server
	host    *host.Local
	control *pgx.Conn // the runner's own connection
	after   []func() error
	skipped []Skipped
}

// Defer has f called when the lab is over, however it ends, the last first and
// before the server stops. It is for what Setup makes outside of the server.
func (s *Stand) Defer(f func() error) { s.after = append(s.after, f) }

// Connect opens a connection to the stand's server, with application_name
// headroom. The caller closes it.
func (s *Stand) Connect(ctx context.Context) (*pgx.Conn, error) {
	cfg, err := s.Config()
	if err != nil {
		return nil, err
	}
	c, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("connect to the lab's server: %w", err)
	}
	return c, nil
}

// Config is the configuration of Connect, to be altered before connecting.
func (s *Stand) Config() (*pgx.ConnConfig, error) {
	cfg, err := pgx.ParseConfig(s.DSN)
	if err != nil {
		return nil, fmt.Errorf("connect to the lab's server: %w", err)
	}
	cfg.RuntimeParams["application_name"] = "headroom"
	return cfg, nil
}

// Version is the server's: "17.11"; "" without one.
func (s *Stand) Version() string {
	if s.server == nil {
		return ""
	}
	return s.server.Version
}

// Exec runs statements one after the other on a connection of its own. Each
// is its own transaction. The error names the statement that failed.
func (s *Stand) Exec(ctx context.Context, statements ...string) error {
	c, err := s.Connect(ctx)
	if err != nil {
		return err
	}
	defer c.Close(context.WithoutCancel(ctx))
	return Exec(ctx, c, statements...)
}

// Exec runs statements one after the other on a connection, without
// preparing them. The error names the statement that failed.
func Exec(ctx context.Context, c *pgx.Conn, statements ...string) error {
	for _, sql := range statements {
		if _, err := c.PgConn().Exec(ctx, sql).ReadAll(); err != nil {
			return fmt.Errorf("run %q: %w", first(sql), err)
		}
	}
	return nil
}

// first is the beginning of a statement, enough to recognise it.
func first(sql string) string {
	const most = 60
	if r := []rune(sql); len(r) > most {
		return string(r[:most]) + "…"
	}
	return sql
}

// stands starts a server for each group of arms with equal settings.
type stands struct {
	lab   *Lab
	exp   Experiment
	opt   Options
	env   Env
	say   func(string)
	all   []*Stand
	ofArm []*Stand
}

func (s *stands) open(ctx context.Context) error {
	for _, a := range s.exp.Arms {
		want := maps.Clone(s.exp.Settings)
		if want == nil {
			want = map[string]string{}
		}
		maps.Copy(want, a.Settings)
		i := slices.IndexFunc(s.all, func(x *Stand) bool { return maps.Equal(x.Settings, want) })
		if i < 0 {
			i = len(s.all)
			st, err := s.start(ctx, want)
			if st != nil {
				s.all = append(s.all, st)
			}
			if err != nil {
				return err
			}
		}
		s.ofArm = append(s.ofArm, s.all[i])
	}
	return nil
}

// start makes one stand ready. A stand returned with an error must be closed.
func (s *stands) start(ctx context.Context, settings map[string]string) (*Stand, error) {
	st := &Stand{Settings: settings}
	if s.lab.Uses != "" {
		s.say("starting a private PostgreSQL server")
		sv, err := pglocal.Start(ctx, pglocal.Options{Major: s.opt.Major, Settings: settings, Parent: s.env.Parent, Name: "headroom lab", Progress: s.say, Found: func(t string) { s.say(trial.Found + t) }})
		if err != nil {
			return nil, err
		}
		st.server, st.DSN, st.host = sv, sv.DSN(), sv.Host()
		if err := s.room(st); err != nil {
			return st, err
		}
		if st.control, err = st.Connect(ctx); err != nil {
			return st, err
		}
	}
	if s.exp.Setup == nil {
		return st, nil
	}
	return st, s.exp.Setup(ctx, st, s.say)
}

// room refuses an experiment that the disk cannot hold.
func (s *stands) room(st *Stand) error {
	dir := filepath.Dir(st.server.DataDir)
	sp, err := st.host.Space(dir)
	if err != nil {
		return err
	}
	if len(s.all) == 0 && s.exp.Disk > int64(sp.Avail) {
		return fail.Hint(fmt.Errorf("fit lab %s into %s: up to %s needed, %s free", s.lab.Name, dir, unit.Bytes(s.exp.Disk), unit.Bytes(sp.Avail)),
			"free some space there, choose smaller parameters (headroom lab lists them), or set HEADROOM_STATE to a folder on a larger disk")
	}
	return nil
}

// close stops all servers; their folders are removed. It works after an
// interruption.
func (s *stands) close() error {
	var errs []error
	for _, st := range s.all {
		for _, f := range slices.Backward(st.after) {
			errs = append(errs, f())
		}
		if st.control != nil {
			ctx, stop := context.WithTimeout(context.Background(), 2*time.Second)
			_ = st.control.Close(ctx) // the server is stopped next, whatever became of the connection
			stop()
		}
		if st.host != nil {
			st.host.Close()
		}
		if st.server != nil {
			errs = append(errs, st.server.Stop())
		}
	}
	return errors.Join(errs...)
}

// settle writes what earlier turns left in memory, so that no turn pays for
// another.
func (s *Stand) settle(ctx context.Context) error {
	if s.control == nil {
		return nil
	}
	if _, err := s.control.Exec(ctx, "checkpoint"); err != nil {
		return fmt.Errorf("settle the server before a turn: %w", err)
	}
	return nil
}

// wal is the position of the write-ahead log in bytes; 0 without a server.
func (s *Stand) wal(ctx context.Context) (int64, error) {
	if s.control == nil {
		return 0, nil
	}
	var at int64
	if err := s.control.QueryRow(ctx, "select (pg_current_wal_insert_lsn() - '0/0')::bigint").Scan(&at); err != nil {
		return 0, fmt.Errorf("read the position of the write-ahead log: %w", err)
	}
	return at, nil
}
