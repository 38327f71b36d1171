package upsert

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"headroom/fail"
)

// Mode says what becomes of a row whose key is there already.
type Mode string

// The modes. The zero value is Replace.
const (
	Replace Mode = "replace" // the new values replace the old ones
	Merge   Mode = "merge"   // jsonb objects are merged (||), other values replaced unless the new one is NULL
	Ignore  Mode = "ignore"  // the old row stays
	Add     Mode = "add"     // Options.Adds are added to; jsonb objects merged; other values replaced
)

// Modes lists all modes.
func Modes() []Mode { return []Mode{Replace, Merge, Ignore, Add} }

// ParseMode reads a mode's name; "" is Replace.
func ParseMode(s string) (Mode, error) { return parse(s, "mode", Replace, Modes()) }

// Durability says what an acknowledged row survives.
type Durability string

// The durabilities, from weak to strong. The zero value is Local.
const (
	Memory     Durability = "memory"     // an unlogged table: a crash of the server empties it
	Async      Durability = "async"      // a crash of the server may lose the last moments (three times wal_writer_delay)
	Local      Durability = "local"      // on the server's disk: survives a crash of server and machine
	Replicated Durability = "replicated" // and applied on the synchronous standbys: survives the loss of the machine
)

// Durabilities lists all durabilities.
func Durabilities() []Durability { return []Durability{Memory, Async, Local, Replicated} }

// ParseDurability reads a durability's name; "" is Local.
func ParseDurability(s string) (Durability, error) {
	return parse(s, "durability", Local, Durabilities())
}

// Strategy is how a batch travels. All give the same result.
type Strategy string

// The strategies. The zero value is Auto.
const (
	Auto     Strategy = "auto"     // measured while it runs
	Unnest   Strategy = "unnest"   // arrays as parameters of a prepared statement
	Staging  Strategy = "staging"  // COPY into a temporary table, then one statement
	Pipeline Strategy = "pipeline" // a prepared statement for each row, sent without waiting

	// The same by MERGE, which does not lock a row before it updates it. Where
	// MERGE would do something else than ON CONFLICT, they are the plain ones.
	UnnestMerge  Strategy = "unnest-merge"
	StagingMerge Strategy = "staging-merge"
)

// Strategies lists all strategies.
func Strategies() []Strategy {
	return []Strategy{Auto, Unnest, Staging, Pipeline, UnnestMerge, StagingMerge}
}

// ParseStrategy reads a strategy's name; "" is Auto.
func ParseStrategy(s string) (Strategy, error) { return parse(s, "strategy", Auto, Strategies()) }

func parse[T ~string](s, what string, zero T, all []T) (T, error) {
	if s == "" {
		return zero, nil
	}
	if slices.Contains(all, T(s)) {
		return T(s), nil
	}
	var names []string
	for _, v := range all {
		names = append(names, string(v))
	}
	return zero, fail.With(fmt.Errorf("unknown %s %q: it is one of %s", what, s, strings.Join(names, ", ")), fail.Usage)
}

// Row is one row to write, in text form as PostgreSQL reads it; nil is NULL.
// Key and Values stand in the order of Table's columns.
type Row struct {
	Key, Values [][]byte
	// Seq is what Acked speaks in, such as the byte offset behind the row. It
	// must not fall from one Add to the next; 0 is one more than the last.
	Seq int64
	// Line is handed to Reject as it is.
	Line int64
}

// Options says what to write and how. Config and Table are needed.
type Options struct {
	Config *pgx.ConnConfig
	Table  Table // as Describe gives it; it is looked at again on opening

	Mode       Mode
	Durability Durability
	Strategy   Strategy
	// Adds names, for Add, the columns whose values are added up, or, where
	// there is no such column, the fields of the only jsonb column.
	Adds []string
	// Source, for Add, names what the rows come from, for ever, such as one file
	// and the table it is added to. Each row must have a Seq of its own, the same
	// in every run. How far the source is in is then kept in the transactions
	// that write it (table headroom.upsert_source), and Add passes over rows that
	// an earlier writer of it brought in, however that ended and over however
	// many connections it wrote. The rows must begin no later than behind an
	// earlier Acked. Only one writer of a source goes on: the last one opened.
	Source string
	// Resumed says that there was an earlier writer of Source. If the database
	// does not know of it, opening fails.
	Resumed bool
	// SkipUnchanged leaves rows alone that would become what they are.
	SkipUnchanged bool

	Connections int // 1 to 64; 0 = found while it runs, 8 at most
	Batch       int // rows per transaction and connection, 1 to 1,000,000; 0 = found while it runs
	// MaxMemory bounds the bytes of rows that wait or are under way; one row
	// may always wait, however large. 0 = 64 MiB.
	MaxMemory int64
	// FlushEvery is how long a row waits at most for others to join its batch
	// while its connection is idle. 0 = 100 ms.
	FlushEvery time.Duration

	// Reject is told of each row that the server refuses, and why, one call at
	// a time, before the row counts as acknowledged. An error from it ends the
	// writer. Without Reject the first refused row ends it.
	Reject func(Row, error) error
	Say    func(string) // is told what an admin should know, in one line each

	// RetryFor is how long one batch is tried again while the server cannot
	// take it. 0 = 5 minutes.
	RetryFor time.Duration
	// StatementTimeout and LockTimeout hold for each statement. 0 = 5 minutes
	// and 30 seconds.
	StatementTimeout, LockTimeout time.Duration
}

// Limits of what Options takes.
const (
	maxConnections = 64
	maxBatch       = 1_000_000
	autoLanes      = 8
)

func (o Options) withDefaults() (Options, error) {
	var err error
	if o.Mode, err = ParseMode(string(o.Mode)); err != nil {
		return o, err
	}
	if o.Durability, err = ParseDurability(string(o.Durability)); err != nil {
		return o, err
	}
	if o.Strategy, err = ParseStrategy(string(o.Strategy)); err != nil {
		return o, err
	}
	switch {
	case o.Config == nil:
		return o, fmt.Errorf("no server given")
	case o.Connections < 0 || o.Connections > maxConnections:
		return o, fail.With(fmt.Errorf("%d connections: 0 (found while it runs) to %d", o.Connections, maxConnections), fail.Usage)
	case o.Batch < 0 || o.Batch > maxBatch:
		return o, fail.With(fmt.Errorf("a batch of %d rows: 0 (found while it runs) to %d", o.Batch, maxBatch), fail.Usage)
	case (o.Mode == Add) != (len(o.Adds) > 0):
		return o, fail.With(fmt.Errorf("mode %s with %d columns or fields to add to", o.Mode, len(o.Adds)), fail.Usage)
	case o.Source != "" && o.Mode != Add:
		return o, fail.With(fmt.Errorf("a source is for mode add, not %s: rows that come again change nothing there", o.Mode), fail.Usage)
	case o.MaxMemory < 0 || o.FlushEvery < 0 || o.RetryFor < 0 || o.StatementTimeout < 0 || o.LockTimeout < 0:
		return o, fail.With(fmt.Errorf("a negative limit"), fail.Usage)
	}
	o.MaxMemory = orElse(o.MaxMemory, 64<<20)
	o.FlushEvery = orElse(o.FlushEvery, 100*time.Millisecond)
	o.RetryFor = orElse(o.RetryFor, 5*time.Minute)
	o.StatementTimeout = orElse(o.StatementTimeout, 5*time.Minute)
	o.LockTimeout = orElse(o.LockTimeout, 30*time.Second)
	return o, nil
}

func orElse[T ~int64](v, zero T) T {
	if v == 0 {
		return zero
	}
	return v
}

func (o Options) say(format string, args ...any) {
	if o.Say != nil {
		o.Say(fmt.Sprintf(format, args...))
	}
}
