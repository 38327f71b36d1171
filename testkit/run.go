package testkit

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"

	"headroom/host"
)

// Run runs a program, as another account if one is given, until the test ends
// or stop is called.
func Run(t testing.TB, acct *host.Account, argv ...string) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = host.Cmd{Argv: argv, As: acct}.Run(ctx, 1<<20) // killed at the end, so its error tells nothing
	}()
	stop = func() { cancel(); <-ended }
	t.Cleanup(stop)
	return stop
}

// Port returns a port of 127.0.0.1 that nobody listens on.
func Port(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// Nginx runs nginx in front of upstream servers (addresses) until the test
// ends, with a status page and a log by upstream, and returns its address and
// its configuration file. The packages nginx (testkit/need) must be there.
func Nginx(t testing.TB, format string, upstreams ...string) (url, conf string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "ngx")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	port := Port(t)
	group := ""
	for _, u := range upstreams {
		group += "server " + u + " max_fails=0;\n"
	}
	text := fmt.Sprintf(`daemon off; pid %[1]s/pid; error_log %[1]s/error.log; worker_processes 1;
events { worker_connections 64; }
http {
	client_body_temp_path %[1]s/b; proxy_temp_path %[1]s/p; fastcgi_temp_path %[1]s/f; uwsgi_temp_path %[1]s/u; scgi_temp_path %[1]s/s;
	access_log %[1]s/plain.log;
	log_format by_upstream '%[4]s';
	upstream group { %[3]s }
	server {
		listen 127.0.0.1:%[2]d;
		location = /status { stub_status; access_log off; }
		location / { proxy_pass http://group; proxy_next_upstream error; access_log %[1]s/by_upstream.log by_upstream; }
	}
}
`, dir, port, group, format)
	conf = filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(conf, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	Run(t, nil, "nginx", "-e", filepath.Join(dir, "error.log"), "-c", conf)
	return fmt.Sprintf("http://127.0.0.1:%d", port), conf
}

// Bouncer runs PgBouncer in front of a server (the right side of a line of
// [databases] for the database postgres) until the test ends, and returns the
// folder of its socket and how to restart it. PgBouncer and root (testkit/need) must be there.
func Bouncer(t testing.TB, port int, server string, more string) (dir string, restart func()) {
	t.Helper()
	dir, err := os.MkdirTemp("", "pgb")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	acct, err := host.LookupAccount("postgres")
	if err != nil {
		t.Fatal(err)
	}
	ini := filepath.Join(dir, "pgbouncer.ini")
	text := fmt.Sprintf("[databases]\npostgres = %[1]s\n[pgbouncer]\nlisten_addr =\nunix_socket_dir = %[2]s\nlisten_port = %[3]d\nauth_type = any\npool_mode = transaction\nlogfile = %[2]s/log\npidfile = %[2]s/pid\n%[4]s\n",
		server, dir, port, more)
	if err := os.WriteFile(ini, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{dir, ini} {
		if err := os.Chown(p, acct.UID, acct.GID); err != nil {
			t.Fatal(err)
		}
	}
	stop := Run(t, acct, "pgbouncer", ini)
	return dir, func() {
		stop()
		_ = os.Remove(fmt.Sprintf("%s/.s.PGSQL.%d", dir, port)) // it was killed
		_ = os.Remove(filepath.Join(dir, "pid"))
		stop = Run(t, acct, "pgbouncer", ini)
	}
}
