package pgscript

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"headroom/engine/loop"
	"headroom/engine/pgwire"
	"headroom/pglocal"
)

var server *pglocal.Server

func TestMain(m *testing.M) {
	os.Exit(func() int {
		var err error
		if server, err = pglocal.Start(context.Background(), pglocal.Options{NoFsync: true}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer server.Stop()
		return m.Run()
	}())
}

// query returns the rows as lines, columns joined by |, NULL as "".
func query(t *testing.T, sql string) string {
	t.Helper()
	c, err := pgwire.Connect(context.Background(), server.DSN())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var lines []string
	c.Query(sql)
	if _, err := c.Do(&pgwire.Handler{Row: func(_ int, v [][]byte) error {
		var f []string
		for _, x := range v {
			f = append(f, string(x))
		}
		lines = append(lines, strings.Join(f, "|"))
		return nil
	}}); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return strings.Join(lines, "\n")
}

func scripts(t *testing.T, src ...string) (out []Weighted) {
	t.Helper()
	for i, s := range src {
		p, err := Parse(fmt.Sprintf("s%d.sql", i), s)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, Weighted{p, 1})
	}
	return out
}

func open(t *testing.T, o Options) *Driver {
	t.Helper()
	o.DSN = server.DSN()
	if o.Clients == 0 {
		o.Clients = 1
	}
	d, err := Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

func run(t *testing.T, d *Driver, length time.Duration) *Result {
	t.Helper()
	r, err := d.Run(context.Background(), length)
	if err != nil {
		t.Fatal(err)
	}
	if r.All != r.Done+r.Failed+r.Skipped {
		t.Fatalf("the counts do not add up: %+v", r.Result)
	}
	return r
}

// once runs src one time with one client.
func once(t *testing.T, p Protocol, src string) *Result {
	t.Helper()
	return run(t, open(t, Options{Options: loop.Options{Transactions: 1}, Protocol: p, Scripts: scripts(t, src)}), 0)
}

var protocols = []Protocol{Simple, Extended, Prepared}

// pgbench runs the real one against the server.
func pgbench(args ...string) error {
	bin := fmt.Sprintf("/usr/lib/postgresql/%d/bin/pgbench", server.Major)
	if _, err := os.Stat(bin); err != nil {
		bin = "pgbench"
	}
	cmd := exec.Command(bin, append(args, server.DSN())...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("pgbench: %w: %s", err, out)
	}
	return nil
}
