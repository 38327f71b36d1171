package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"headroom/host"
	"headroom/metric"
)

// machine is a map of a machine on which a good deal runs.
func machine() *host.Fake {
	proc := func(pid int, name string, parent int, args ...string) map[string]string {
		dir := fmt.Sprintf("/proc/%d", pid)
		return map[string]string{dir + "/stat": fmt.Sprintf("%d (%s) S %d 1 1 0", pid, name, parent), dir + "/cmdline": strings.Join(args, "\x00") + "\x00"}
	}
	f := &host.Fake{Files: map[string]string{
		"/proc/net/unix": `Num       RefCount Protocol Flags    Type St Inode Path
0000000000000000: 00000002 00000000 00010000 0001 01 1 /var/run/postgresql/.s.PGSQL.5432
0000000000000000: 00000002 00000000 00010000 0001 01 2 /tmp/.s.PGSQL.5432
0000000000000000: 00000002 00000000 00010000 0001 01 3 /srv/other/.s.PGSQL.5433
0000000000000000: 00000002 00000000 00010000 0001 01 4 /var/run/postgresql/.s.PGSQL.6432
0000000000000000: 00000003 00000000 00000000 0001 03 5 /var/run/postgresql/.s.PGSQL.5999
0000000000000000: 00000002 00000000 00010000 0001 01 6 @/tmp/.s.PGSQL.5998
0000000000000000: 00000002 00000000 00010000 0001 01 7 /run/x/.s.PGSQL.none
0000000000000000: 00000002 00000000 00010000 0001 01 8 /var/cache/headroom/pg/pg-abcdefgh/s/.s.PGSQL.5432
0000000000000000: 00000002 00000000 00010000 0001 01 9 /skip/me/s/.s.PGSQL.5440
`,
		"/proc/net/tcp": `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:153A 00000000:0000 0A 00000000:00000000 00:00000000 00000000   112        0 1 1 0 100 0 0 10 0
   1: 00000000:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1 0 100 0 0 10 0
   3: 0500000A:1928 00000000:0000 0A 00000000:00000000 00:00000000 00000000   112        0 1 1 0 100 0 0 10 0
   4: 0100007F:1928 00000000:0000 0A 00000000:00000000 00:00000000 00000000   112        0 1 1 0 100 0 0 10 0
   2: 0100007F:153A 0100007F:9999 01 00000000:00000000 00:00000000 00000000   112        0 1 1 0 100 0 0 10 0
`,
		"/proc/net/tcp6": `  sl  local_address                         remote_address                        st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000000000000000000001000000:153B 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000   112        0 1 1 0 100 0 0 10 0
`,
		"/data/main/postmaster.pid":    "100\n/data/main\n1\n5432\n/var/run/postgresql\nlocalhost\n 1 2\nready   \n",
		"/data/tcponly/postmaster.pid": "102\n/data/tcponly\n1\n5434\n\nlocalhost\n 1 2\nready   \n",
		"/data/tcp6/postmaster.pid":    "103\n/data/tcp6\n1\n5435\n\n::1\n 1 2\nready   \n",
		"/container/pgbouncer.ini":     "[pgbouncer]\nlisten_port = 6999\nlisten_addr = 10.9.0.1\nunix_socket_dir =\n",
		"/tcp/pgbouncer.ini":           "[pgbouncer]\nlisten_port = 6440\nlisten_addr = 10.0.0.5, 127.0.0.1\nunix_socket_dir =\n",
		"/etc/pgbouncer/pgbouncer.ini": "; x\n[databases]\nlisten_port = 1\n[pgbouncer]\nlisten_port = 6432\nunix_socket_dir = /var/run/postgresql\nstats_users = stats, more\nadmin_users=boss\n",
	}, Links: map[string]string{
		"/proc/100/cwd": "/data/main", "/proc/102/cwd": "/data/tcponly", "/proc/103/cwd": "/data/tcp6", "/proc/301/cwd": "/srv/ngx",
	}, Stats: map[string]host.FileInfo{}}
	for _, m := range []map[string]string{
		proc(100, "postgres", 1, "/usr/lib/postgresql/15/bin/postgres", "-D", "/data/main"),
		proc(101, "postgres", 100, "postgres: checkpointer"),
		proc(102, "postgres", 1, "postgres"), proc(103, "postmaster", 1, "postgres"),
		proc(104, "postgres", 1, "postgres", "-D", "/x", "-c", "port=5499"), // in a container: no socket or port of it is here
		proc(105, "postgres", 1, "postgres", "-D", "/var/cache/headroom/pg/pg-abcdefgh/data", "-c", "unix_socket_directories=/var/cache/headroom/pg/pg-abcdefgh/s", "-c", "port=5432"),
		proc(200, "pgbouncer", 1, "pgbouncer", "-d", "/etc/pgbouncer/pgbouncer.ini"),
		proc(300, "nginx", 1, "nginx: master process /usr/sbin/nginx -g daemon on; master_process on;"),
		proc(301, "nginx", 1, "nginx: master process nginx -c conf/n.conf"),
		proc(201, "pgbouncer", 1, "pgbouncer", "/container/pgbouncer.ini"), proc(202, "pgbouncer", 1, "pgbouncer", "/tcp/pgbouncer.ini"),
		proc(303, "nginx", 1, "nginx: master process nginx"), {"/proc/303/cgroup": "0::/system.slice/docker-abc.scope\n"},
		proc(302, "nginx", 300, "nginx: worker process"),
	} {
		for k, v := range m {
			f.Files[k] = v
		}
	}
	return f
}

func TestFindsWhatRuns(t *testing.T) {
	t.Setenv("PGUSER", "me")
	var asked []string
	f := &Finder{Reader: machine(), DSNs: []string{"host=db.example.com user=x password=hush"}, Skip: []string{"/skip"}}
	f.Knock = func(_ context.Context, kind metric.Target, dsn string) (Identity, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		asked = append(asked, dsn)
		if kind == metric.Postgres && strings.Contains(dsn, "port=5433") || kind == metric.PgBouncer && !strings.Contains(dsn, "user='stats'") {
			return Identity{}, errors.Join(host.ErrConnect, &pgconn.PgError{Code: "28000", Message: `role "me" does not exist`})
		}
		return Identity{}, nil
	}
	got := f.Find(t.Context())
	var lines []string
	for _, x := range got {
		line := fmt.Sprintf("%s %s | %s | %s", x.Kind, x.Name, x.Found, x.DSN)
		if x.Missing != "" {
			line = fmt.Sprintf("%s %s MISSING %s | %s", x.Kind, x.Name, x.Missing, x.Hint)
		}
		lines = append(lines, line)
	}
	want := []string{
		"nginx /srv/ngx/conf/n.conf | process 301, /srv/ngx/conf/n.conf | ",
		"nginx nginx | process 300, /etc/nginx/nginx.conf | ",
		"nginx process 303 MISSING nginx runs as process 303, but no socket or port of it is visible from here (a container?) | run an agent in its container",
		"pgbouncer 6432 | process 200, socket /var/run/postgresql/.s.PGSQL.6432 | host='/var/run/postgresql' port=6432 dbname=pgbouncer user='stats'",
		"pgbouncer 6440 MISSING found (process 202, port 127.0.0.1:6440), but cannot log in: no connection\n: role \"me\" does not exist (SQLSTATE 28000) | put stats_users = me into pgbouncer.ini and RELOAD it; a password it asks for belongs into ~/.pgpass",
		"pgbouncer process 201 MISSING PgBouncer runs as process 201, but no socket or port of it is visible from here (a container?) | run an agent where it runs",
		`postgres /srv/other:5433 MISSING found (socket /srv/other/.s.PGSQL.5433), but cannot log in: no connection` + "\n" + `: role "me" does not exist (SQLSTATE 28000) | let it in, as the server's own account: psql -h /srv/other -p 5433 -d postgres -c 'CREATE ROLE "me" LOGIN' -c 'GRANT pg_monitor TO "me"'; or name another login with --db`,
		"postgres 5432 | socket /var/run/postgresql/.s.PGSQL.5432 | host='/var/run/postgresql' port=5432 dbname=postgres",
		"postgres 5434 | port 127.0.0.1:5434 | host='127.0.0.1' port=5434 dbname=postgres",
		"postgres 5435 | port ::1:5435 | host='::1' port=5435 dbname=postgres",
		"postgres db.example.com:5432 | named by --db | host=db.example.com user=x password=hush",
		"postgres process 104 MISSING PostgreSQL runs as process 104, but no socket or port of it is visible from here (a container?) | name it: --db 'host=ADDRESS port=PORT user=…'",
	}
	if !slices.Equal(lines, want) {
		t.Errorf("got:\n%s\nwant:\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
	// A server that refused is left alone for a while, one that let us in is
	// not asked again.
	asked = nil
	if again := f.Find(t.Context()); len(again) != len(got) || len(asked) != 0 {
		t.Errorf("%d targets; asked again: %q", len(again), asked)
	}
	f.All = true
	if all := f.Find(t.Context()); len(all) != len(got)+1 {
		t.Errorf("%d targets with private servers, want one more than %d", len(all), len(got))
	}
}

func TestFindsByAccountWhereNothingElseTells(t *testing.T) {
	f := machine()
	f.Files = map[string]string{"/proc/net/tcp": f.Files["/proc/net/tcp"], "/proc/9/stat": "9 (postgres) S 1 1 1 0"}
	f.Stats["/proc/9"] = host.FileInfo{UID: 112}
	got := (&Finder{Reader: f, Knock: func(context.Context, metric.Target, string) (Identity, error) { return Identity{}, nil }}).Find(t.Context())
	if len(got) != 2 || got[0].Name != "5434" || got[1].Name != "6440" || got[0].Missing != "" {
		t.Errorf("got %+v", got)
	}
}

func TestTargetsAreBounded(t *testing.T) {
	f := &host.Fake{Files: map[string]string{"/proc/net/unix": ""}}
	for i := range 100 {
		f.Files["/proc/net/unix"] += fmt.Sprintf("0: 00000002 00000000 00010000 0001 01 1 /run/x/.s.PGSQL.%d\n", 5000+i)
	}
	got := (&Finder{Reader: f, Knock: func(context.Context, metric.Target, string) (Identity, error) { return Identity{}, nil }}).Find(t.Context())
	if len(got) != maxTargets || !strings.Contains(got[maxTargets-1].Missing, "36 more servers") {
		t.Errorf("%d targets, the last one %+v", len(got), got[len(got)-1])
	}
}

func FuzzFind(f *testing.F) {
	m := machine()
	f.Add(m.Files["/proc/net/unix"], m.Files["/proc/net/tcp"], m.Files["/proc/100/stat"], m.Files["/proc/100/cmdline"], m.Files["/data/main/postmaster.pid"])
	f.Fuzz(func(t *testing.T, unix, tcp, stat, cmdline, pid string) {
		r := &host.Fake{Files: map[string]string{"/proc/net/unix": unix, "/proc/net/tcp": tcp, "/proc/7/stat": stat, "/proc/7/cmdline": cmdline, "/d/postmaster.pid": pid},
			Links: map[string]string{"/proc/7/cwd": "/d"}}
		got := (&Finder{Reader: r, Knock: func(context.Context, metric.Target, string) (Identity, error) { return Identity{}, nil }}).Find(context.Background())
		if len(got) > maxTargets {
			t.Errorf("%d targets", len(got))
		}
	})
}
