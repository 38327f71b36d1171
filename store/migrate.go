package store

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"headroom/fail"
)

//go:embed migrations/*.sql
var migrations embed.FS

//go:embed ensure.sql
var ensureSQL string

// versionTable is goose's; the SQL kit shares the schema and has its own.
const versionTable = "headroom.store_version"

// migrate brings the schema up to this program's version, under a lock, and
// refuses one that is newer.
func (s *Store) migrate(ctx context.Context) error {
	cfg := s.cfg.Copy()
	cfg.RuntimeParams["statement_timeout"] = "10min"
	db := stdlib.OpenDB(*cfg)
	defer db.Close()
	if _, err := db.ExecContext(ctx, "select 1"); err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	var version int
	var recovery, there bool
	if err := db.QueryRowContext(ctx, "select current_setting('server_version_num')::int, pg_is_in_recovery(), exists (select from pg_namespace where nspname = 'headroom')").Scan(&version, &recovery, &there); err != nil {
		return err
	}
	if err := tooOld(version); err != nil {
		return err
	}
	if recovery {
		return fail.Hint(fmt.Errorf("the server is a standby and takes no writes"), "give --store the primary")
	}
	if !there {
		if _, err := db.ExecContext(ctx, "create schema if not exists headroom"); err != nil {
			return fail.Hint(fmt.Errorf("make schema headroom: %w", err), "GRANT CREATE ON DATABASE … TO the user that --store names")
		}
	}
	dir, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockID(storeLock+1), lock.WithLockTimeout(1, 60))
	if err != nil {
		return err
	}
	p, err := goose.NewProvider(goose.DialectPostgres, db, dir, goose.WithTableName(versionTable), goose.WithSessionLocker(locker), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return err
	}
	now, ours, err := p.GetVersions(ctx)
	if err != nil {
		return fmt.Errorf("read the schema's version: %w", err)
	}
	if now > ours {
		return fail.Hint(fmt.Errorf("%w: it is of version %d, and this program knows %d", ErrNewer, now, ours), "use the newer headroom that made it")
	}
	done, err := p.Up(ctx)
	if err != nil {
		return fmt.Errorf("bring the schema from version %d to %d: %w", now, ours, err)
	}
	if len(done) > 0 && now > 0 {
		s.o.Log(fmt.Sprintf("store: schema brought from version %d to %d", now, ours))
	}
	return nil
}

// oldest is the oldest major version of PostgreSQL that the schema is tested on.
const oldest = 13

// tooOld refuses a server by its server_version_num.
func tooOld(version int) error {
	if version >= oldest*10000 {
		return nil
	}
	name := strconv.Itoa(version / 10000)
	if version < 100000 { // 9.6.24 is 90624
		name = fmt.Sprintf("%d.%d", version/10000, version/100%100)
	}
	return fail.Hint(fmt.Errorf("the server is PostgreSQL %s, and the store needs %d or newer", name, oldest), "upgrade it, or leave --store out: a private server is used then")
}

// ensure makes the tables anew that are made and dropped in the normal course
// of things and may be missing because somebody dropped them.
func (s *Store) ensure(ctx context.Context) error {
	for sql := range strings.SplitSeq(ensureSQL, "\n") {
		if sql == "" {
			continue
		}
		if _, err := s.writer.Exec(ctx, sql); err != nil {
			return fmt.Errorf("make hot tables: %w", err)
		}
	}
	return nil
}
