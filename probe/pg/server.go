package pg

import (
	"context"

	"github.com/jackc/pgx/v5"

	"headroom/fact"
)

// Server is who answers at the other end.
type Server struct {
	Version    int64            `json:"version" unit:"count" src:"server_version_num" doc:"version as a number: 150004 is 15.4"`
	Major      int64            `json:"major" unit:"count" src:"server_version_num" doc:"major version"`
	Text       string           `json:"text" src:"version()" doc:"version as the server words it"`
	Recovery   bool             `json:"recovery" src:"pg_is_in_recovery()" doc:"it is a standby, or recovers from a backup"`
	Uptime     float64          `json:"uptime" unit:"seconds" src:"pg_postmaster_start_time()" doc:"time since the server started"`
	ConfigAge  float64          `json:"config_age" unit:"seconds" src:"pg_conf_load_time()" doc:"time since the configuration was read"`
	Identifier fact.Opt[string] `json:"identifier" src:"pg_control_system()" doc:"number that the data folder got at initdb; standbys share it"`
	Checksums  bool             `json:"checksums" src:"data_checksums" doc:"pages carry checksums"`
	BlockSize  int64            `json:"block_size" unit:"bytes" src:"block_size" doc:"size of a page"`
	User       string           `json:"user" src:"current_user" doc:"role that Headroom connects as"`
	Superuser  bool             `json:"superuser" src:"pg_roles rolsuper" doc:"that role is a superuser"`
	Monitor    bool             `json:"monitor" src:"pg_has_role(pg_monitor)" doc:"that role may see all statistics and settings"`
	Database   string           `json:"database" src:"current_database()" doc:"database that Headroom is connected to"`
	Pooled     bool             `json:"pooled" src:"pg_backend_pid()" doc:"a connection pooler such as PgBouncer answers in the server's place"`
	Socket     bool             `json:"socket" src:"inet_server_addr()" doc:"the connection runs over a unix socket"`
	Same       fact.Opt[bool]   `json:"same_machine" src:"inet_server_addr(), postmaster.pid" doc:"the server runs on the machine that Headroom runs on"`
}

// Servers is the fact "pg.server".
var Servers = &fact.Source[Server]{
	Name: "pg.server", Doc: "which PostgreSQL server answers, since when, and what we may see of it",
	Read: readServer,
}

func readServer(ctx context.Context, in *fact.In) (Server, error) {
	var s Server
	var sameAddress *bool
	var identifier, folder *string
	err := look(ctx, in, "ask the server who it is", func(ctx context.Context, tx pgx.Tx) error {
		sql, err := statement("server", 0)
		if err != nil {
			return err
		}
		var pid uint32
		err = tx.QueryRow(ctx, sql).Scan(&s.Version, &s.Text, &s.Recovery, &s.Uptime, &s.ConfigAge, &s.Checksums, &s.BlockSize,
			&s.User, &s.Superuser, &s.Monitor, &s.Database, &pid, &s.Socket, &sameAddress, &folder)
		s.Major = s.Version / 10000
		s.Pooled = pid != tx.Conn().PgConn().PID()
		return err
	})
	if err != nil {
		return Server{}, err
	}
	s.Same = sameMachine(in, s, sameAddress, folder)
	s.Identifier = fact.Unknown[string]("the server does not tell")
	if err := look(ctx, in, "ask for the system identifier", func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, "select system_identifier::text from pg_catalog.pg_control_system()").Scan(&identifier)
	}); err != nil {
		s.Identifier = fact.Unknown[string](err.Error())
	} else if identifier != nil {
		s.Identifier = fact.Known(*identifier)
	}
	return s, nil
}
