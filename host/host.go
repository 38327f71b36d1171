// Package host is the only door to the machine and to a live PostgreSQL server.
//
// Reader looks, Writer changes, and they are different types: code that holds
// a Reader cannot alter anything. Local is this machine (or a folder that
// holds a copy of its files), Fake is a machine made of a map. No other
// package runs programs (os/exec) or opens /proc, /sys or /etc itself; they
// name such paths to a Reader or Writer, which resolves them under its root.
package host

import (
	"context"
	"io/fs"
	"time"

	"github.com/jackc/pgx/v5"
)

// Reader looks at one machine and, if it was opened with one, at one
// PostgreSQL server. No method alters either. Paths are absolute names as on
// the machine itself. Errors wrap fail.ErrAbsent where the thing is not there
// and fail.ErrDenied where we may not look.
type Reader interface {
	// ReadFile returns a file's content. Files over 16 MiB are refused.
	ReadFile(path string) ([]byte, error)
	// ReadFrom returns at most n bytes (1 MiB at most) of a file from an
	// offset on; none at its end.
	ReadFrom(path string, off int64, n int) ([]byte, error)
	// Glob lists the paths that match a pattern of path/filepath.Match,
	// sorted; none is no error.
	Glob(pattern string) ([]string, error)
	// Resolve returns path with every symbolic link followed.
	Resolve(path string) (string, error)
	// Stat describes the file or folder at path, links followed.
	Stat(path string) (FileInfo, error)
	// Space says how full the file system that holds path is.
	Space(path string) (Space, error)
	// OpenTimed opens a file or block device for timed reads that by-pass the
	// page cache. It never writes.
	OpenTimed(path string) (TimedFile, error)
	// Look runs a program from the list of read-only commands (see Looks),
	// with a time limit of 10 s (60 s for lists of firewall rules), and returns
	// what it wrote to standard output. More than 64 MiB, and any other argv, is an error.
	Look(ctx context.Context, argv ...string) ([]byte, error)
	// PG runs f in one READ ONLY transaction on the server, with
	// statement_timeout and lock_timeout set. One connection serves all
	// calls, one after the other. fail.ErrAbsent if no server was named.
	PG(ctx context.Context, f func(ctx context.Context, tx pgx.Tx) error) error
	// Console runs one command that only shows (see consoles) on PgBouncer's
	// console. fail.ErrAbsent if no server was named.
	Console(ctx context.Context, command string) (Table, error)
	// Get asks this very machine for a status page, at most 1 MiB within 2 s:
	// http://NAME:PORT/PATH goes to loopback whatever the name is, which is
	// only said to the server; unix:/SOCKET:/PATH to a socket. Redirections
	// are not followed.
	Get(ctx context.Context, address string) ([]byte, error)
	// Clock says how well the wall clock is kept.
	Clock() (Clock, error)
	// Now is the machine's wall clock.
	Now() time.Time
}

// Writer changes the machine and its server. Only package change, private
// servers and the tests hold one.
type Writer interface {
	Reader
	// WriteFile replaces path by content so that after a return of nil both
	// survive a power loss: temporary file, fsync, rename, fsync of the
	// folder. Folders that are missing are an error.
	WriteFile(path string, content []byte, mode fs.FileMode) error
	// WriteValue writes into an existing pseudo file of /proc or /sys, as it
	// stands, without a temporary file.
	WriteValue(path, value string) error
	// Remove deletes one file, durably. A file that is not there is no error.
	Remove(path string) error
	// Run runs any program by argv (no shell), LC_ALL=C, with a time limit
	// of 60 s; the error carries what it wrote to standard error.
	Run(ctx context.Context, argv ...string) ([]byte, error)
	// Feed is Run with input on the program's standard input.
	Feed(ctx context.Context, input []byte, argv ...string) ([]byte, error)
	// PGExec runs one statement outside a transaction on the server, with
	// lock_timeout and statement_timeout set. Refused through a pooler.
	PGExec(ctx context.Context, sql string) error
	// PGRestart restarts the server the way it was started (systemd unit,
	// pg_ctl, or the owner of a private server) and waits until it answers.
	PGRestart(ctx context.Context) error
}

// FileInfo is what Reader.Stat tells.
type FileInfo struct {
	Size  int64 // bytes
	Mode  fs.FileMode
	UID   int
	GID   int
	Inode uint64 // tells a file from another that took its name
	Major uint32 // device that holds the file: /proc/self/mountinfo's and /sys/dev/block's number
	Minor uint32
}

// Space is how full a file system is, from statfs(2): Avail is what an
// unprivileged process may still use.
type Space struct {
	Total, Avail        int64 // bytes
	Inodes, InodesAvail int64 // count; 0 where the file system does not count them
	FSType              int64 // statfs f_type
	ReadOnly            bool
}

// TimedFile measures single reads. It is not safe for concurrent use.
type TimedFile interface {
	// Size is the file's or device's size in bytes.
	Size() int64
	// ReadTimed reads n bytes at off (both multiples of 4096) with O_DIRECT
	// where the file system has it and the lowest best-effort I/O priority,
	// and returns how long the read took.
	ReadTimed(off int64, n int) (time.Duration, error)
	// Direct says whether the reads by-pass the page cache.
	Direct() bool
	Close() error
}
