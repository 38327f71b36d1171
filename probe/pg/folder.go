package pg

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"headroom/fact"
	"headroom/fail"
	"headroom/host"
)

// Folder is where a server keeps what. The paths are those of the server's
// machine: they mean nothing here unless Same is known and true.
type Folder struct {
	Data        string           `json:"data" src:"data_directory" doc:"the data folder, symbolic links followed where we can"`
	WAL         fact.Opt[string] `json:"wal" src:"data_directory/pg_wal" doc:"where the write-ahead log lies, symbolic link followed"`
	Log         fact.Opt[string] `json:"log" src:"log_directory" doc:"where the log collector writes"`
	Tablespaces []Tablespace     `json:"tablespaces" doc:"further folders that hold tables"`
	Same        fact.Opt[bool]   `json:"same_machine" src:"pg.server" doc:"these folders are on the machine that Headroom runs on"`
}

// Tablespace is a folder besides the data folder.
type Tablespace struct {
	Name string `json:"name" src:"pg_tablespace" doc:"its name"`
	Path string `json:"path" src:"pg_tablespace_location()" doc:"its folder"`
}

// Folders is the fact "pg.folders".
var Folders = &fact.Source[Folder]{
	Name: "pg.folders", Doc: "where the server keeps its data, write-ahead log, log and tablespaces",
	Read: readFolders,
}

func readFolders(ctx context.Context, in *fact.In) (Folder, error) {
	s, err := From(ctx, in)
	if err != nil {
		return Folder{}, err
	}
	f := Folder{Same: s.Same, Tablespaces: []Tablespace{}}
	var logs string
	var collector bool
	err = look(ctx, in, "ask for the server's folders", func(ctx context.Context, tx pgx.Tx) error {
		// current_setting refuses by name where pg_settings only hides a row.
		err := tx.QueryRow(ctx, `select pg_catalog.current_setting('data_directory'), pg_catalog.current_setting('log_directory'),
			pg_catalog.current_setting('logging_collector')::bool`).Scan(&f.Data, &logs, &collector)
		if err != nil {
			return err
		}
		rows, err := tx.Query(ctx, `select spcname::text, pg_catalog.pg_tablespace_location(oid) from pg_catalog.pg_tablespace
			where pg_catalog.pg_tablespace_location(oid) <> '' order by 1`)
		if err != nil {
			return err
		}
		f.Tablespaces, err = pgx.CollectRows(rows, pgx.RowToStructByPos[Tablespace])
		return err
	})
	if err != nil {
		return Folder{}, err
	}
	f.Log = fact.Unknown[string]("the server has no log collector: it writes to standard error, which something else keeps")
	if collector {
		if !path.IsAbs(logs) {
			logs = path.Join(f.Data, logs)
		}
		f.Log = fact.Known(logs)
	}
	f.follow(in)
	return f, nil
}

// follow resolves links where the folders are on this machine and readable.
func (f *Folder) follow(r host.Reader) {
	wal := path.Join(f.Data, "pg_wal")
	if !f.Same.OK() || !f.Same.Value {
		f.WAL = fact.Unknown[string]("the server's files are not on this machine, as far as can be told")
		return
	}
	if p, err := r.Resolve(wal); err == nil {
		f.WAL = fact.Known(p)
	} else {
		f.WAL = fact.Unknown[string](fmt.Sprintf("%s cannot be looked at (it may be a symbolic link): %v; run as root or as the server's account", wal, err))
	}
	if p, err := r.Resolve(f.Data); err == nil {
		f.Data = p
	}
}

// sameMachine tells whether the server runs where we do. The lock file in the
// data folder settles it where we may read it: it holds the start time.
func sameMachine(r host.Reader, s Server, sameAddress *bool, folder *string) fact.Opt[bool] {
	if folder != nil {
		b, err := r.ReadFile(path.Join(*folder, "postmaster.pid"))
		if err == nil {
			return fact.Known(startedAt(string(b), float64(r.Now().Unix())-s.Uptime))
		}
		_, folderErr := r.Stat(*folder)
		if errors.Is(folderErr, fail.ErrAbsent) {
			return fact.Known(false)
		}
	}
	switch {
	case s.Pooled:
		return fact.Unknown[bool]("a connection pooler stands between us and the server")
	case s.Socket || sameAddress != nil && *sameAddress:
		return fact.Known(true)
	}
	return fact.Known(false)
}

// startedAt says whether a postmaster.pid tells about this start of a server:
// its third line is the start time in seconds since 1970. Two machines may
// hold equal paths, but hardly servers started in the same 5 seconds.
func startedAt(lockFile string, start float64) bool {
	lines := strings.Split(lockFile, "\n")
	if len(lines) < 3 {
		return false
	}
	at, err := strconv.ParseFloat(strings.TrimSpace(lines[2]), 64)
	return err == nil && at-start < 5 && start-at < 5
}
