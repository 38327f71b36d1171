package change

import (
	"context"
	"fmt"
	"net"
	"path"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"headroom/fail"
	"headroom/host"
)

// Server tells one PostgreSQL server from all others, and how it was started,
// as far as that could be seen. It holds no password.
type Server struct {
	SystemID string `json:"system_id"`          // of pg_control; clones and standbys share it
	Address  string `json:"address"`            // socket folder or host, and port
	Role     string `json:"role,omitempty"`     // that we connected as
	Database string `json:"database,omitempty"` // that we connected to
	DataDir  string `json:"data_dir,omitempty"` // "" where we may not see it
	Version  string `json:"version"`            // "15.14"
	Recovery bool   `json:"recovery,omitempty"` // a standby, when the plan was made
	// How it was started, on this machine: to bring it back when it does not
	// come up with a changed setting.
	Unit    string `json:"unit,omitempty"`
	Program string `json:"program,omitempty"`
	Owner   int    `json:"owner,omitempty"` // user id
	Log     string `json:"log,omitempty"`   // file that its standard error goes to
}

// Conninfo is a connection string that leads to the server again, from this
// machine and without a password: those come from .pgpass or PGPASSWORD.
func (s Server) Conninfo() string {
	host, port, err := net.SplitHostPort(s.Address)
	if at := strings.LastIndexByte(s.Address, ':'); strings.HasPrefix(s.Address, "/") && at > 0 {
		host, port, err = s.Address[:at], s.Address[at+1:], nil
	}
	if err != nil {
		return ""
	}
	out := []string{}
	for _, kv := range [][2]string{{"host", host}, {"port", port}, {"user", s.Role}, {"dbname", s.Database}} {
		if kv[1] != "" {
			out = append(out, kv[0]+"='"+strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(kv[1])+"'")
		}
	}
	return strings.Join(out, " ")
}

// onServer says whether a step is about a server.
func onServer(s Step) bool { return s.Kind() == "setting" || s.Kind() == "sql" }

const identitySQL = `select (select system_identifier::text from pg_catalog.pg_control_system()),
	coalesce(pg_catalog.current_setting('data_directory', true), ''), pg_catalog.current_setting('server_version'), pg_catalog.pg_is_in_recovery()`

const identityPlainSQL = `select (select system_identifier::text from pg_catalog.pg_control_system()),
	'', pg_catalog.current_setting('server_version'), pg_catalog.pg_is_in_recovery()`

// identify asks the server who it is.
func identify(ctx context.Context, r host.Reader) (Server, error) {
	var s Server
	ask := func(sql string) error {
		return r.PG(ctx, func(ctx context.Context, tx pgx.Tx) error {
			cfg := tx.Conn().Config()
			s.Role, s.Database = cfg.User, cfg.Database
			s.Address = address(cfg, tx.Conn().PgConn().Conn().RemoteAddr())
			return tx.QueryRow(ctx, sql).Scan(&s.SystemID, &s.DataDir, &s.Version, &s.Recovery)
		})
	}
	err := ask(identitySQL)
	if err != nil { // data_directory takes pg_monitor
		err = ask(identityPlainSQL)
	}
	if err != nil {
		return Server{}, fmt.Errorf("ask the server who it is: %w", err)
	}
	s.Version, _, _ = strings.Cut(s.Version, " ")
	if l, ok := r.(interface {
		PGRunning(context.Context) (host.Running, error)
	}); ok {
		if run, err := l.PGRunning(ctx); err == nil {
			s.Unit, s.Program, s.Owner, s.Log = run.Unit, run.Program, run.Owner, run.Log
		}
	}
	return s, nil
}

// address names the server that answers: of several hosts the one that the
// connection leads to.
func address(cfg *pgx.ConnConfig, peer net.Addr) string {
	host, port := cfg.Host, cfg.Port
	for _, f := range cfg.Fallbacks {
		if f.Host == cfg.Host && f.Port == cfg.Port {
			continue
		}
		if tcp, ok := peer.(*net.TCPAddr); ok { // names are many, the peer's address is one
			host, port = tcp.IP.String(), uint16(tcp.Port)
		} else if strings.HasSuffix(peer.String(), fmt.Sprintf(".s.PGSQL.%d", f.Port)) && path.Dir(peer.String()) == path.Clean(f.Host) {
			host, port = f.Host, f.Port
		}
	}
	if strings.HasPrefix(host, "/") {
		return fmt.Sprintf("%s:%d", host, port)
	}
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}

// is says whether two identities are of one server. The address alone does
// not tell: one server has several.
func (s Server) is(o Server) bool {
	if s.SystemID != o.SystemID {
		return false
	}
	if s.DataDir != "" && o.DataDir != "" {
		return s.DataDir == o.DataDir
	}
	return s.Address == o.Address
}

func machineID(r host.Reader) string {
	b, err := r.ReadFile("/etc/machine-id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// here checks that this is the machine and server that the plan is about.
func (p *Plan) here(ctx context.Context, r host.Reader) error {
	_, err := p.find(ctx, r)
	return err
}

// fresh is here for a plan that is yet to be applied: the server must also
// still be the primary, or the standby, that it was. On another machine that
// is all that tells the two apart.
func (p *Plan) fresh(ctx context.Context, r host.Reader) error {
	now, err := p.find(ctx, r)
	if err != nil || p.Server == nil || now.Recovery == p.Server.Recovery {
		return err
	}
	role := map[bool]string{true: "a standby", false: "a primary"}
	return fail.With(fail.Hint(fmt.Errorf("match %s with this server: it was planned for %s, and this is %s", p.Title(), role[p.Server.Recovery], role[now.Recovery]),
		"name the server that the plan was made for with --db, or plan again"), fail.Drift)
}

// find asks the server who it is, and checks that it and the machine are the
// plan's.
func (p *Plan) find(ctx context.Context, r host.Reader) (now Server, err error) {
	if id := machineID(r); id != p.Machine {
		return now, fail.With(fmt.Errorf("match %s with this machine: it was planned on machine %q, and this is %q", p.Title(), p.Machine, id), fail.Drift)
	}
	if p.Server == nil {
		return now, nil
	}
	if now, err = identify(ctx, r); err != nil {
		return now, err
	}
	if !p.Server.is(now) {
		return now, fail.With(fail.Hint(fmt.Errorf("match %s with this server: it was planned for %s (system %s), and this is %s (system %s)",
			p.Title(), p.Server.Address, p.Server.SystemID, now.Address, now.SystemID),
			"name the server that the plan was made for with --db"), fail.Drift)
	}
	return now, nil
}
