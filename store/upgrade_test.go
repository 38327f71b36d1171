package store

import (
	"context"
	"flag"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"testing"
	"time"

	"headroom/metric"
)

var remake = flag.Bool("store.fixture", false, "write testdata/version1.sql anew; only before version 1 is released")

const fixture = "testdata/version1.sql"

// fixed is what the fixture holds: half-hourly points of two and a half days,
// of which two are rolled up, the rest is packed or hot.
func fixed() (model, time.Time) {
	m, start := model{}, at("2026-03-01 00:00:00")
	b := batch()
	for _, s := range []*metric.Series{series(`level{host="a \"b\""}`), series(`jobs_total{host="ä"}`)} {
		var ps []metric.Point
		for i := range 120 {
			ps = append(ps, pt(start.Add(time.Duration(i)*30*time.Minute), float64(i*i%97)/4))
		}
		b.Rows = append(b.Rows, row(s, ps...))
	}
	m.write(b)
	return m, start.Add(60 * time.Hour)
}

// TestOldSchemaOpens: a store of the first version is brought up to the
// present one, holds what it held, and goes on.
func TestOldSchemaOpens(t *testing.T) {
	m, end := fixed()
	c := newClock(end.Format("2006-01-02 15:04:05"))
	if *remake {
		makeFixture(t, m, c)
	}
	text, err := os.ReadFile(fixture)
	if err != nil {
		t.Fatal(err)
	}
	dsn := base(t, 0)
	pg := dial(t, dsn)
	if _, err := pg.PgConn().Exec(context.Background(), string(text)).ReadAll(); err != nil {
		t.Fatal(err)
	}
	_ = pg.Close(context.Background()) // the fixture changes its settings
	keep := func(o *Options) { o.Retention = must(ParseRetention("raw:30d,1m:60d")) }
	s := openStore(t, dsn, c, keep)
	pg = dial(t, dsn)
	agree(t, pg, m, must(s.Status(context.Background())).RolledTo)
	c.add(26 * time.Hour)
	for x := range m {
		b := batch(row(x, pt(c.now(), 5)))
		write(t, s, b)
		m.write(b)
	}
	maintain(t, s)
	asked(t, s, m, at("2026-02-28 00:00:00"), c.now().Add(day))
	agree(t, pg, m, must(s.Status(context.Background())).RolledTo)
}

func makeFixture(t *testing.T, m model, c *clock) {
	dsn := base(t, 0)
	s := openStore(t, dsn, c)
	for x := range m {
		write(t, s, batch(row(x, m.points(x)...)))
	}
	maintain(t, s)
	s.Close()
	pg := dial(t, dsn)
	for _, sql := range []string{"drop view headroom.point, headroom.minute, headroom.hour, headroom.day, headroom.mark, headroom.finding", `do $$ declare f text; begin
		for f in select p.oid::regprocedure from pg_proc p where p.pronamespace = 'headroom'::regnamespace loop execute 'drop function ' || f || ' cascade'; end loop; end $$`,
		"delete from headroom.store_version where version_id > 1"} {
		do(t, pg, sql)
	}
	conn := server(t, 0).Conn
	out, err := exec.Command("pg_dump", "--inserts", "--no-owner", "--schema=headroom", "-h", conn.SocketDir, "-p", strconv.Itoa(conn.Port), "-U", conn.User, pg.Config().Database).Output()
	if err != nil {
		t.Fatal(err)
	}
	out = regexp.MustCompile(`(?m)^(\\.*|--.*|)\n`).ReplaceAll(out, nil)
	if err := os.WriteFile(fixture, out, 0o644); err != nil {
		t.Fatal(err)
	}
}
