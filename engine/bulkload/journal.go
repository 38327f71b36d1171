package bulkload

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"headroom/fail"
	"headroom/host"
)

// State is how far a load is.
type State string

// The states, in their order. What a state promises was committed with it.
const (
	Planned State = "planned" // definitions are stored; nothing is touched
	Loading State = "loading" // what goes is gone; chunks come in
	Loaded  State = "loaded"  // all rows are in; what was dropped is being built
	Undoing State = "undoing" // the rows are being taken out
	Done    State = "done"
	Undone  State = "undone" // the table is as it was
)

// over says whether nothing is left to do.
func (s State) over() bool { return s == Done || s == Undone }

// Journal is what is stored of a load before it touches anything: in a file
// and in the table headroom.load.
type Journal struct {
	Format   string    `json:"format"`
	Schema   int       `json:"schema"`
	ID       string    `json:"id"`
	Begun    time.Time `json:"begun"`
	Database string    `json:"database"`
	System   string    `json:"system"`
	State    State     `json:"state"`
	Options  Options   `json:"options"`
	Plan     Plan      `json:"plan"`
	Restore  []string  `json:"restore"` // statements that make again what is dropped, for a person
}

const journalFormat = "headroom-load"

// tablesSQL makes the tables that loads are recorded in.
const tablesSQL = `create schema if not exists headroom;
create table if not exists headroom.load (
  id text primary key, begun timestamptz not null default now(), ended timestamptz,
  state text not null, target text not null, journal jsonb not null, result jsonb);
create table if not exists headroom.load_chunk (
  load text not null, start bigint not null, stop bigint not null, part integer not null, line bigint not null,
  records bigint not null, rejected bigint not null, primary key (load, start, part));
comment on table headroom.load is 'bulk loads: what was dropped for each, and how far it is';
comment on table headroom.load_chunk is 'which parts of the input of a load are committed'`

// makeTables makes them where they are missing.
func makeTables(ctx context.Context, conn *pgx.Conn) error {
	for n := 0; ; n++ {
		var there bool
		err := conn.QueryRow(ctx, "select pg_catalog.to_regclass('headroom.load') is not null and pg_catalog.to_regclass('headroom.load_chunk') is not null").Scan(&there)
		if err == nil && there {
			return nil
		}
		if err == nil {
			_, err = conn.Exec(ctx, "begin; set local lock_timeout = '3s'; "+tablesSQL+"; commit", pgx.QueryExecModeSimpleProtocol)
		}
		if err == nil {
			return nil
		}
		_, _ = conn.Exec(ctx, "rollback")
		var pe *pgconn.PgError
		if errors.As(err, &pe) && pe.Code == "42501" {
			return fail.Hint(fmt.Errorf("make the schema headroom, in which loads are recorded: %w", err),
				"GRANT CREATE ON DATABASE %s TO the user that loads, or load in one transaction: --atomic", conn.Config().Database)
		}
		if n > 3 { // another load may be making them at this moment
			return fmt.Errorf("make the schema headroom, in which loads are recorded: %w", err)
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

func newID(now time.Time) string {
	return now.UTC().Format("20060102-150405-") + strings.ToLower(rand.Text()[:4])
}

// path is the journal's file; "" if there is none.
func (j *Journal) path(dir string) string {
	if dir == "" {
		return ""
	}
	return filepath.Join(dir, j.ID+".json")
}

// writeFile stores the journal in its file, to survive a power loss.
func (j *Journal) writeFile(dir string) error {
	path := j.path(dir)
	if path == "" {
		return nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("store the definitions: %w", err)
	}
	b, err := json.MarshalIndent(j, "", " ")
	if err == nil {
		err = host.WriteDurable(path, append(b, '\n'), 0o600)
	}
	if err == nil {
		err = host.SyncDir(filepath.Dir(dir))
	}
	if err != nil {
		return fmt.Errorf("store the definitions: %w", err)
	}
	return nil
}

// writeRow stores the journal in the table.
func (j *Journal) writeRow(ctx context.Context, q queryer) error {
	b, err := json.Marshal(j)
	if err == nil {
		_, err = q.Exec(ctx, `insert into headroom.load (id, begun, state, target, journal) values ($1, $2, $3, $4, $5)`,
			j.ID, j.Begun, string(j.State), j.Plan.Table.ident(), string(b))
	}
	if err != nil {
		return fmt.Errorf("store the definitions: %w", err)
	}
	return nil
}

// setState moves the load on. It fails if the row is not in a state that came
// before, as when somebody else works on the same load.
func (j *Journal) setState(ctx context.Context, q queryer, s State, from ...State) error {
	var was []string
	for _, f := range from {
		was = append(was, string(f))
	}
	end := ""
	if s.over() {
		end = ", ended = now()"
	}
	tag, err := q.Exec(ctx, "update headroom.load set state = $2"+end+" where id = $1 and state = any($3)", j.ID, string(s), was)
	if err == nil && tag.RowsAffected() != 1 {
		err = fmt.Errorf("it is in none of the states %s", strings.Join(was, ", "))
	}
	if err != nil {
		return fmt.Errorf("record load %s as %s: %w", j.ID, s, err)
	}
	j.State = s
	return nil
}

// find reads a load's journal: from the table, or, if that is gone, from the
// file. With an empty id it is the only load that is not over.
func find(ctx context.Context, conn *pgx.Conn, dir, id string) (*Journal, error) {
	all, err := list(ctx, conn, dir)
	if err != nil {
		return nil, err
	}
	var open []*Journal
	for _, j := range all {
		if j.ID == id {
			return j, nil
		}
		if !j.State.over() {
			open = append(open, j)
		}
	}
	switch {
	case id != "":
		return nil, fail.Hint(fmt.Errorf("find load %s: %w", id, fail.ErrAbsent), "see: headroom load list")
	case len(open) == 0:
		return nil, fail.Hint(fmt.Errorf("find a load that is not over: %w", fail.ErrAbsent), "see: headroom load list")
	case len(open) > 1:
		return nil, fail.With(fail.Hint(fmt.Errorf("find the load: %d are not over", len(open)), "name one of them: headroom load list"), fail.Usage)
	}
	return open[0], nil
}

// list reads all loads that the database, or the folder, knows of, the newest
// first.
func list(ctx context.Context, conn *pgx.Conn, dir string) ([]*Journal, error) {
	var there bool
	if err := conn.QueryRow(ctx, "select pg_catalog.to_regclass('headroom.load') is not null").Scan(&there); err != nil {
		return nil, fmt.Errorf("list loads: %w", err)
	}
	var out []*Journal
	known := map[string]bool{}
	if there {
		rows, err := conn.Query(ctx, "select state, journal::text from headroom.load order by begun desc, id desc")
		if err != nil {
			return nil, fmt.Errorf("list loads: %w", err)
		}
		out, err = pgx.CollectRows(rows, func(r pgx.CollectableRow) (*Journal, error) {
			var state, text string
			if err := r.Scan(&state, &text); err != nil {
				return nil, err
			}
			j, err := parseJournal([]byte(text))
			if err != nil {
				return nil, err
			}
			j.State = State(state)
			known[j.ID] = true
			return j, nil
		})
		if err != nil {
			return nil, fmt.Errorf("list loads: %w", err)
		}
	}
	var system string
	if err := conn.QueryRow(ctx, systemSQL).Scan(&system); err != nil {
		return nil, fmt.Errorf("list loads: %w", err)
	}
	return append(out, fromFiles(dir, system, known)...), nil
}

// systemSQL tells this database from others, also of other servers.
const systemSQL = `select pg_catalog.encode(pg_catalog.sha256(pg_catalog.convert_to(d.datname || d.oid::pg_catalog.text
    || (select c.system_identifier from pg_catalog.pg_control_system() c), 'UTF8')), 'hex')
  from pg_catalog.pg_database d where d.datname = pg_catalog.current_database()`

// alone refuses a table that another load has not finished with: what that
// dropped is missing, and what it loaded would come twice.
func (j *job) alone(ctx context.Context) error {
	all, err := list(ctx, j.conn, "")
	if err != nil {
		return err
	}
	for _, other := range all {
		if !other.State.over() && other.State != Planned && (other.Plan.Table.OID == j.table().OID || other.Plan.Table.ident() == j.table().ident()) {
			return fail.Hint(fmt.Errorf("load into %s: the load %s of %s is open", j.table(), other.ID, other.Begun.Format(time.DateTime)),
				"go on with it: headroom load resume %s; or take it back: headroom load restore %s", other.ID, other.ID)
		}
	}
	return nil
}

// fromFiles reads the journals of loads that the database does not know: their
// table was dropped, or never written because the load died before that.
func fromFiles(dir, system string, known map[string]bool) (out []*Journal) {
	files, _ := filepath.Glob(filepath.Join(dir, "*.json"))
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil || dir == "" {
			continue
		}
		j, err := parseJournal(b)
		if err != nil || known[j.ID] || j.System != system || j.State.over() {
			continue
		}
		out = append(out, j)
	}
	return out
}

func parseJournal(b []byte) (*Journal, error) {
	var j Journal
	if err := json.Unmarshal(b, &j); err != nil {
		return nil, fmt.Errorf("read a load's journal: %w", err)
	}
	if j.Format != journalFormat || j.Schema != 1 || j.ID == "" {
		return nil, fail.Hint(fmt.Errorf("read a load's journal: format %q, schema %d", j.Format, j.Schema), "a newer version of Headroom wrote it; use that one")
	}
	return &j, nil
}

// hold takes the load for this process alone, for as long as the connection lives.
func hold(ctx context.Context, conn *pgx.Conn, id string) error {
	for n := 0; ; n++ {
		var got bool
		if err := conn.QueryRow(ctx, "select pg_catalog.pg_try_advisory_lock(pg_catalog.hashtextextended('headroom.load ' || $1, 0))", id).Scan(&got); err != nil {
			return fmt.Errorf("take load %s: %w", id, err)
		}
		if got {
			return nil
		}
		if n > 20 { // the server needs a moment to notice that a client was killed
			return fail.With(fail.Hint(fmt.Errorf("take load %s: another process works on it", id), "wait for it, or end it"), fail.Locked)
		}
		if err := pause(ctx, 250*time.Millisecond); err != nil {
			return err
		}
	}
}
