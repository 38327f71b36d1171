package host

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/sys/unix"

	"headroom/fail"
)

// ParseDSN reads a connection string as libpq does: URL, keyword=value, the
// bare name of a database, or nothing, beside PG* variables, service files and
// .pgpass. Words of libpq that pgx does not know are obeyed (hostaddr,
// requirepeer, ssl_min_protocol_version), left out where they only tune the
// line (keepalives), or refused where leaving them out would weaken what was
// asked for. Texts always come as UTF-8. Errors have status fail.Usage and
// hold no password.
func ParseDSN(dsn string) (*pgx.ConnConfig, error) {
	cfg, err := parseDSN(dsn)
	if err != nil {
		return nil, fail.With(fail.Hint(fmt.Errorf("read the connection string: %w", err),
			"write it as libpq does: --db 'host=/var/run/postgresql dbname=postgres' or --db postgres://user@host/db"), fail.Usage)
	}
	return cfg, nil
}

func parseDSN(dsn string) (*pgx.ConnConfig, error) {
	if dsn != "" && !isURL(dsn) && !strings.Contains(dsn, "=") {
		dsn = also("", "dbname", dsn)
	}
	cfg, err := pgx.ParseConfig(dsn)
	if err != nil && strings.Contains(err.Error(), "failed to read service") {
		return parseService(dsn, err)
	}
	if err != nil {
		return nil, err
	}
	if addr := cmp.Or(cfg.RuntimeParams["hostaddr"], os.Getenv("PGHOSTADDR")); addr != "" {
		if cfg, err = dialAddr(dsn, cfg, addr); err != nil {
			return nil, err
		}
	}
	return cfg, obey(cfg)
}

func isURL(dsn string) bool {
	return strings.HasPrefix(dsn, "postgres://") || strings.HasPrefix(dsn, "postgresql://")
}

// also adds a setting to a connection string; the last one of a name counts.
func also(dsn, name, value string) string {
	if !isURL(dsn) {
		return strings.TrimSpace(dsn + " " + name + "='" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(value) + "'")
	}
	var esc strings.Builder
	for _, b := range []byte(value) {
		fmt.Fprintf(&esc, "%%%02X", b)
	}
	sep := "?"
	if strings.Contains(dsn, "?") {
		sep = "&"
	}
	return dsn + sep + name + "=" + esc.String()
}

// systemServices are where libpq looks for services after the user's own file:
// its builders choose the folder.
var systemServices = []string{"/etc/postgresql-common", "/etc", "/etc/sysconfig/pgsql", "/usr/local/etc/postgresql"}

// parseService goes on with the system's service file where the user's holds
// no such service.
func parseService(dsn string, cause error) (*pgx.ConnConfig, error) {
	cause = fail.Hint(cause, "services stand in ~/.pg_service.conf, or in the file that PGSERVICEFILE names")
	if os.Getenv("PGSERVICEFILE") != "" || strings.Contains(dsn, "servicefile") {
		return nil, cause
	}
	dirs := systemServices
	if d := os.Getenv("PGSYSCONFDIR"); d != "" {
		dirs = []string{d}
	}
	for _, d := range dirs {
		file := filepath.Join(d, "pg_service.conf")
		if _, err := os.Stat(file); err != nil {
			continue
		}
		cfg, err := parseDSN(also(dsn, "servicefile", file))
		if err == nil || !strings.Contains(err.Error(), "failed to read service") {
			return cfg, err
		}
	}
	return nil, cause
}

// dialAddr has the connection go to addresses whatever the host's name leads
// to; the name still counts for certificates and passwords.
func dialAddr(dsn string, cfg *pgx.ConnConfig, list string) (*pgx.ConnConfig, error) {
	addrs := strings.Split(list, ",")
	for _, a := range addrs {
		if net.ParseIP(a) == nil {
			return nil, fmt.Errorf("hostaddr %q is not an address", a)
		}
	}
	hosts := hostsOf(cfg)
	if len(hosts) == 1 && strings.HasPrefix(hosts[0], "/") { // the default, or a socket: the address wins
		return pgx.ParseConfig(also(dsn, "host", list))
	}
	if len(hosts) != len(addrs) {
		return nil, fmt.Errorf("could not match %d host names to %d hostaddr values", len(hosts), len(addrs))
	}
	named := cfg.LookupFunc
	cfg.LookupFunc = func(ctx context.Context, host string) ([]string, error) {
		if i := slices.Index(hosts, host); i >= 0 {
			return addrs[i : i+1], nil
		}
		return named(ctx, host)
	}
	return cfg, nil
}

// hostsOf lists the hosts of a configuration in order, each once.
func hostsOf(cfg *pgx.ConnConfig) []string {
	out := []string{cfg.Host}
	for _, f := range cfg.Fallbacks {
		if !slices.Contains(out, f.Host) {
			out = append(out, f.Host)
		}
	}
	return out
}

// idle are libpq's words without a meaning here: they tune the line, or name
// ways of encryption and login that pgx does not go.
var idle = []string{"keepalives", "keepalives_idle", "keepalives_interval", "keepalives_count", "tcp_user_timeout", "fallback_application_name",
	"load_balance_hosts", "sslcompression", "gssencmode", "gsslib", "gssdelegation", "hostaddr", "client_encoding",
	"requirepeer", "ssl_min_protocol_version", "ssl_max_protocol_version", "sslcrl", "sslcrldir"}

// strange are libpq's words that cannot be obeyed.
var strange = []string{"replication", "scram_client_key", "scram_server_key", "oauth_issuer", "oauth_client_id", "oauth_client_secret", "oauth_scope", "sslkeylogfile"}

// obey does what libpq's words ask for, and takes them out of what the server
// is sent at start.
func obey(cfg *pgx.ConnConfig) error {
	p := cfg.RuntimeParams
	for _, w := range strange {
		if p[w] != "" {
			return fmt.Errorf("option %q is not supported", w)
		}
	}
	if p["gssencmode"] == "require" {
		return errors.New("gssencmode=require is not supported")
	}
	if encrypts(cfg) && p["sslcrl"]+p["sslcrldir"] != "" {
		return errors.New("sslcrl and sslcrldir are not supported")
	}
	if err := tlsRange(cfg, p["ssl_min_protocol_version"], p["ssl_max_protocol_version"]); err != nil {
		return err
	}
	if who := cmp.Or(p["requirepeer"], os.Getenv("PGREQUIREPEER")); who != "" {
		cfg.AfterNetConnect = func(_ context.Context, _ *pgconn.Config, c net.Conn) (net.Conn, error) { return c, isPeer(c, who) }
	}
	for _, w := range idle {
		delete(p, w)
	}
	p["client_encoding"] = "UTF8" // the names of a database in another encoding, too
	return nil
}

// tlsConfigs lists the encryptions that may be tried.
func tlsConfigs(cfg *pgx.ConnConfig) []*tls.Config {
	out := []*tls.Config{cfg.TLSConfig}
	for _, f := range cfg.Fallbacks {
		out = append(out, f.TLSConfig)
	}
	return slices.DeleteFunc(out, func(t *tls.Config) bool { return t == nil })
}

func encrypts(cfg *pgx.ConnConfig) bool { return len(tlsConfigs(cfg)) > 0 }

var tlsVersions = map[string]uint16{"": 0, "TLSv1": tls.VersionTLS10, "TLSv1.1": tls.VersionTLS11, "TLSv1.2": tls.VersionTLS12, "TLSv1.3": tls.VersionTLS13}

func tlsRange(cfg *pgx.ConnConfig, low, high string) error {
	from, ok1 := tlsVersions[low]
	to, ok2 := tlsVersions[high]
	if !ok1 || !ok2 {
		return fmt.Errorf("invalid SSL protocol version %q (there are: TLSv1, TLSv1.1, TLSv1.2, TLSv1.3)", cmp.Or(low, high))
	}
	for _, t := range tlsConfigs(cfg) {
		if from != 0 {
			t.MinVersion = from
		}
		if to != 0 {
			t.MaxVersion = to
		}
	}
	return nil
}

// isPeer makes sure that the process behind a unix socket is who's; over TCP
// it does not ask, as libpq does not.
func isPeer(c net.Conn, who string) error {
	sock, ok := c.(*net.UnixConn)
	if !ok {
		return nil
	}
	raw, err := sock.SyscallConn()
	if err != nil {
		return fmt.Errorf("ask who holds the socket: %w", err)
	}
	var cred *unix.Ucred
	var credErr error
	if err := raw.Control(func(fd uintptr) { cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil || credErr != nil {
		return fmt.Errorf("ask who holds the socket: %w", errors.Join(err, credErr))
	}
	name := strconv.Itoa(int(cred.Uid))
	if u, err := user.LookupId(name); err == nil {
		name = u.Username
	}
	if name != who {
		return fmt.Errorf("requirepeer specifies %q, but actual peer user name is %q", who, name)
	}
	return nil
}
