// Package script holds stories of the whole program: each testdata/*.txtar
// runs headroom as its user would, against real private servers.
package script

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/rogpeppe/go-internal/testscript"

	"headroom/cli"
	"headroom/host"
	"headroom/pglocal"
	"headroom/testkit"
	"headroom/testkit/need"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"headroom": func() { os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) },
	})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       testkit.Updating(),
		Setup: func(env *testscript.Env) error {
			// The account that private servers run as must be able to enter.
			if err := errors.Join(os.Chmod(filepath.Dir(env.WorkDir), 0o711), os.Chmod(env.WorkDir, 0o711)); err != nil {
				return err
			}
			env.Setenv("HOME", env.WorkDir)
			env.Setenv("HEADROOM_STATE", filepath.Join(env.WorkDir, ".headroom"))
			env.Setenv("PGHOST", filepath.Join(env.WorkDir, "no-server-here"))
			env.Setenv("PGCONNECT_TIMEOUT", "5")
			env.Setenv("TERM", "dumb")
			env.Setenv("LANG", "C.UTF-8")
			return onMajor(env)
		},
		Condition: func(cond string) (bool, error) {
			if name, ok := strings.CutPrefix(cond, "need:"); ok {
				need.Have(t, strings.Split(name, ",")...)
				return true, nil
			}
			return false, fmt.Errorf("unknown condition %q", cond)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"server":     server,
			"sql":        sql,
			"match":      match,
			"status":     status,
			"eventually": eventually,
			"port":       port,
			"cert":       cert,
			"answers":    answers,
		},
	})
}

// onMajor passes HEADROOM_MAJOR on, with the programs that were fetched before.
func onMajor(env *testscript.Env) error {
	major := os.Getenv("HEADROOM_MAJOR")
	if major == "" {
		return nil
	}
	env.Setenv("HEADROOM_MAJOR", major)
	dirs, err := host.OwnDirs()
	if err != nil {
		return err
	}
	fetched, err := filepath.Glob(filepath.Join(dirs.Cache, "pg", "postgresql-"+major+".*[0-9]"))
	if err != nil || len(fetched) == 0 {
		return err
	}
	cache := filepath.Join(env.WorkDir, ".headroom", "cache", "pg")
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return err
	}
	return os.Symlink(fetched[len(fetched)-1], filepath.Join(cache, filepath.Base(fetched[len(fetched)-1])))
}

// server NAME [tcp] [setting=value…] starts a private server and points PG* at
// it; with tcp it listens on 127.0.0.1:$TCPPORT, too, and wants a password there.
func server(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: server NAME [setting=value…]")
	}
	settings := map[string]string{}
	tcp := false
	for _, a := range args[1:] {
		if a == "tcp" {
			tcp = true
			continue
		}
		k, v, _ := strings.Cut(a, "=")
		settings[k] = v
	}
	ctx, stop := context.WithTimeout(context.Background(), 2*time.Minute)
	defer stop()
	s, err := pglocal.Start(ctx, pglocal.Options{Name: args[0], Settings: settings, TCP: tcp})
	ts.Check(err)
	ts.Defer(func() { _ = s.Stop() })
	ts.Setenv("PGHOST", s.Conn.SocketDir)
	ts.Setenv("PGPORT", fmt.Sprint(s.Conn.Port))
	ts.Setenv("PGUSER", s.Conn.User)
	ts.Setenv("PGDATABASE", s.Conn.Database)
	if m := regexp.MustCompile(`port='?(\d+)`).FindStringSubmatch(s.TCPDSN()); m != nil {
		ts.Setenv("TCPPORT", m[1])
	}
	ts.Setenv("PGDATA_"+args[0], s.DataDir)
}

// sql STATEMENT runs SQL on the server started last; what it returns is
// stdout for the next `stdout` check through the file sql.out.
func sql(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: sql STATEMENT")
	}
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	conn, err := pgx.Connect(ctx, fmt.Sprintf("host=%s port=%s user=%s dbname=%s",
		ts.Getenv("PGHOST"), ts.Getenv("PGPORT"), ts.Getenv("PGUSER"), ts.Getenv("PGDATABASE")))
	ts.Check(err)
	defer conn.Close(ctx)
	results, err := conn.PgConn().Exec(ctx, args[0]).ReadAll()
	if neg == (err == nil) {
		ts.Fatalf("sql: %v", err)
	}
	var out strings.Builder
	for _, r := range results {
		for _, row := range r.Rows {
			for i, col := range row {
				if i > 0 {
					out.WriteByte('|')
				}
				out.Write(col)
			}
			out.WriteByte('\n')
		}
	}
	ts.Check(os.WriteFile(ts.MkAbs("sql.out"), []byte(out.String()), 0o644))
}

// eventually SETTING VALUE waits up to 20 s until the server shows the value.
func eventually(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: eventually SETTING VALUE")
	}
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(200 * time.Millisecond) {
		sql(ts, false, []string{"show " + args[0]})
		got := strings.TrimSpace(ts.ReadFile("sql.out"))
		if got == args[1] {
			return
		}
		if time.Now().After(end) {
			ts.Fatalf("%s is %s, want %s", args[0], got, args[1])
		}
	}
}

// match NAME FILE REGEXP sets NAME to the first group that REGEXP finds in FILE.
func match(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: match NAME FILE REGEXP")
	}
	m := regexp.MustCompile(args[2]).FindStringSubmatch(ts.ReadFile(args[1]))
	if len(m) < 2 {
		ts.Fatalf("%s not found in %s:\n%s", args[2], args[1], ts.ReadFile(args[1]))
	}
	ts.Setenv(args[0], m[1])
}

// status N COMMAND… runs the program and wants exit status N; what it wrote is
// in the files out and err.
func status(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: status N COMMAND…")
	}
	err := ts.Exec(args[1], args[2:]...)
	got := 0
	if err != nil {
		m := regexp.MustCompile(`exit status (\d+)`).FindStringSubmatch(err.Error())
		if m == nil {
			ts.Fatalf("status: %v", err)
		}
		fmt.Sscan(m[1], &got)
	}
	ts.Check(os.WriteFile(ts.MkAbs("out"), []byte(ts.ReadFile("stdout")), 0o644))
	ts.Check(os.WriteFile(ts.MkAbs("err"), []byte(ts.ReadFile("stderr")), 0o644))
	if fmt.Sprint(got) != args[0] {
		ts.Fatalf("exit status %d, want %s", got, args[0])
	}
}
