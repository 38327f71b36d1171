package bulkload_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"headroom/engine/bulkload"
	"headroom/pglocal"
	"headroom/testkit/need"
)

var major = flag.Int("major", 0, "major version of the private servers; 0: the newest installed")

var shared struct {
	once sync.Once
	sv   *pglocal.Server
	err  error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if shared.sv != nil {
		if err := shared.sv.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// server is a private server that the tests of this package share.
func server(t testing.TB) *pglocal.Server {
	t.Helper()
	need.Have(t, "pg")
	shared.once.Do(func() {
		shared.sv, shared.err = pglocal.Start(context.Background(), pglocal.Options{Major: *major, Name: "bulkload", NoFsync: true})
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.sv
}

// bench is a database of its own, with a folder for files.
type bench struct {
	t    testing.TB
	cfg  *pgx.ConnConfig
	conn *pgx.Conn
	dir  string
	said []string
	mu   sync.Mutex
}

func newBench(t testing.TB) *bench { return benchOn(t, server(t)) }

func benchOn(t testing.TB, sv *pglocal.Server) *bench {
	t.Helper()
	admin, err := pgx.Connect(t.Context(), sv.DSN())
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close(t.Context())
	name := strings.ToLower("b" + strings.NewReplacer("/", "_", "#", "_", "-", "_").Replace(t.Name()))
	name = name[:min(len(name), 50)] + fmt.Sprint(time.Now().UnixNano()%100000)
	if _, err := admin.Exec(t.Context(), "create database "+name); err != nil {
		t.Fatal(err)
	}
	cfg, err := pgx.ParseConfig(sv.DSN() + " dbname=" + name)
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, cfg: cfg, dir: t.TempDir()}
	b.connect()
	t.Cleanup(func() { _ = b.conn.Close(context.Background()) })
	return b
}

// connect connects, anew after the server was ended.
func (b *bench) connect() {
	b.t.Helper()
	var err error
	if b.conn, err = pgx.ConnectConfig(b.t.Context(), b.cfg); err != nil {
		b.t.Fatal(err)
	}
}

// exec runs SQL, several statements at once.
func (b *bench) exec(sql string) {
	b.t.Helper()
	if _, err := b.conn.Exec(b.t.Context(), sql, pgx.QueryExecModeSimpleProtocol); err != nil {
		b.t.Fatalf("%s: %v", sql, err)
	}
}

// text is the answer of a query: columns with | between, rows with newlines.
func (b *bench) text(sql string) string {
	b.t.Helper()
	res, err := b.conn.PgConn().Exec(b.t.Context(), sql).ReadAll()
	if err != nil {
		b.t.Fatalf("%s: %v", sql, err)
	}
	var out []string
	for _, row := range res[len(res)-1].Rows {
		var cols []string
		for _, c := range row {
			cols = append(cols, string(c))
		}
		out = append(out, strings.Join(cols, "|"))
	}
	return strings.Join(out, "\n")
}

func (b *bench) want(sql, want string) {
	b.t.Helper()
	if got := b.text(sql); got != want {
		b.t.Errorf("%s\n got %q\nwant %q", sql, got, want)
	}
}

// file writes a file of input.
func (b *bench) file(name, content string) string {
	b.t.Helper()
	path := filepath.Join(b.dir, name)
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		b.t.Fatal(err)
	}
	return path
}

// options are those of an ordinary load.
func (b *bench) options(path, table string) bulkload.Options {
	return bulkload.Options{Config: b.cfg, Dir: filepath.Join(b.dir, "state", "load"), Path: path, Table: table,
		Rejects: filepath.Join(b.dir, "rejects"), MaxRejects: -1, Say: func(s string) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.said = append(b.said, s)
		}}
}

func (b *bench) load(o bulkload.Options) *bulkload.Result {
	b.t.Helper()
	r, err := bulkload.Run(b.t.Context(), o)
	if err != nil {
		b.t.Fatalf("%v\n%s", err, strings.Join(b.said, "\n"))
	}
	return r
}

func (b *bench) rejects() string {
	b.t.Helper()
	got, err := os.ReadFile(filepath.Join(b.dir, "rejects"))
	if err != nil {
		b.t.Fatal(err)
	}
	return string(got)
}

// definitions is all that must be the same after a load as before it.
const definitions = `
select 'index', pg_get_indexdef(i.indexrelid), c.reltablespace::text, c.reloptions::text, obj_description(c.oid, 'pg_class'),
       i.indisclustered::text, i.indisreplident::text, i.indisvalid::text,
       (select string_agg(attnum || ':' || attstattarget, ',' order by attnum) from pg_attribute where attrelid = c.oid)
  from pg_index i join pg_class c on c.oid = i.indexrelid join pg_class t on t.oid = i.indrelid join pg_namespace n on n.oid = t.relnamespace
 where n.nspname not in ('pg_catalog', 'pg_toast', 'information_schema', 'headroom')
union all
select 'constraint', k.conrelid::regclass || ' ' || k.conname || ' ' || pg_get_constraintdef(k.oid), k.convalidated::text, k.condeferrable::text, obj_description(k.oid, 'pg_constraint'),
       k.condeferred::text, k.contype::text, k.conislocal::text, ''
  from pg_constraint k join pg_namespace n on n.oid = k.connamespace where n.nspname not in ('pg_catalog', 'information_schema', 'headroom')
union all
select 'trigger', pg_get_triggerdef(t.oid), t.tgenabled::text, '', '', '', '', '', ''
  from pg_trigger t where not t.tgisinternal
union all
select 'table', c.oid::regclass::text, c.relreplident::text, c.relhastriggers::text, c.relhasindex::text, '', '', '', '' from pg_class c join pg_namespace n on n.oid = c.relnamespace
 where c.relkind in ('r', 'p') and n.nspname not in ('pg_catalog', 'information_schema', 'headroom')
order by 1, 2`
