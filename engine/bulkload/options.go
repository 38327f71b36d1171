package bulkload

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"headroom/engine/record"
	"headroom/fail"
)

// Options say what to load, into what, and how. What is saved with a load's
// journal has a JSON name.
type Options struct {
	Config   *pgx.ConnConfig `json:"-"`
	Dir      string          `json:"-"` // definitions are stored below it; "" for nowhere but the table
	Stdin    io.Reader       `json:"-"` // read where Path is "-"
	Say      func(string)    `json:"-"` // told in one line each what a person should know; may be nil
	Progress func(Progress)  `json:"-"` // told how far it is; may be nil

	Path  string `json:"path"`  // the input file; "-" for Stdin
	Table string `json:"table"` // as in SQL

	Format    *record.Format `json:"format,omitempty"` // nil: guessed from name and content
	Header    *bool          `json:"header,omitempty"` // nil: if the first record names columns
	Delimiter byte           `json:"delimiter,omitempty"`
	Quote     byte           `json:"quote,omitempty"`
	Escape    byte           `json:"escape,omitempty"`
	Null      *string        `json:"null,omitempty"`
	Encoding  string         `json:"encoding,omitempty"` // of the input; "" is UTF8
	// Columns are the input's columns in their order, "-" for one that is left
	// out; for documents, COLUMN=PATH each ("." is the whole document). Empty:
	// by the header, by the documents' names, or all columns of the table.
	Columns []string `json:"columns,omitempty"`

	Atomic      bool    `json:"atomic,omitempty"`
	Truncate    bool    `json:"truncate,omitempty"`
	Create      *Create `json:"create,omitempty"`
	Indexes     string  `json:"indexes,omitempty"` // auto, keep or drop
	Offline     bool    `json:"offline,omitempty"` // nobody else uses the table now
	NoTriggers  bool    `json:"no_triggers,omitempty"`
	Sorted      bool    `json:"sorted,omitempty"` // keep the input's order
	PartitionOf string  `json:"partition_of,omitempty"`
	Values      string  `json:"values,omitempty"`

	Rejects    string `json:"rejects,omitempty"` // file for bad records; "" lets the first one end the load
	MaxRejects int64  `json:"max_rejects"`       // below 0: any number

	// MaxRecord is the largest record that is taken, in bytes; longer ones are
	// bad. It bounds the memory that a load takes. 0: 16 MiB.
	MaxRecord int `json:"max_record,omitempty"`

	Connections int           `json:"connections,omitempty"`  // 0: as the plan finds right
	LockTimeout time.Duration `json:"lock_timeout,omitempty"` // how long to wait for the table at the start; 0: 3 s
	Patience    time.Duration `json:"patience,omitempty"`     // and for building what was dropped; 0: 10 min

	attach *Attach
}

// Create asks for the table to be made.
type Create struct {
	Key      []string `json:"key,omitempty"` // columns of the primary key
	Unlogged bool     `json:"unlogged,omitempty"`
}

// A chunk is what one transaction takes of the input, in bytes: enough that its
// commit does not count, few enough that sending it again does not hurt.
const (
	chunkMost  = 1 << 20
	chunkLeast = 128 << 10
)

// check refuses what cannot be meant: usage errors.
func (o *Options) check() error {
	usage := func(format string, args ...any) error { return fail.With(fmt.Errorf(format, args...), fail.Usage) }
	switch {
	case o.Table == "":
		return fail.Hint(usage("load: no table named"), "write: --into TABLE")
	case o.Path == "":
		return fail.Hint(usage("load: no input named"), "name a file, or - for standard input")
	case !slices.Contains([]string{"", "auto", "keep", "drop"}, o.Indexes):
		return usage("read --indexes: %q is not auto, keep or drop", o.Indexes)
	case (o.PartitionOf == "") != (o.Values == ""):
		return fail.Hint(usage("load: a partition needs both --partition-of and --values"), "write: --partition-of PARENT --values \"FROM ('2026-01-01') TO ('2026-02-01')\"")
	case o.PartitionOf != "" && (o.Create != nil || o.Truncate):
		return usage("load: --partition-of makes the table itself; leave out --create and --truncate")
	case o.Create != nil && o.Truncate:
		return usage("load: --create makes a new table; there is nothing to truncate")
	case o.Connections < 0:
		return usage("read --connections: %d is below 0", o.Connections)
	}
	return nil
}

func (o *Options) say(format string, args ...any) {
	if o.Say != nil {
		o.Say(fmt.Sprintf(format, args...))
	}
}

// recordMost is the largest record that is taken unless another size is asked for.
const recordMost = 16 << 20

func (o *Options) lockTimeout() time.Duration {
	if o.LockTimeout > 0 {
		return o.LockTimeout
	}
	return 3 * time.Second
}

func (o *Options) patience() time.Duration {
	if o.Patience > 0 {
		return o.Patience
	}
	return 10 * time.Minute
}

// absolute makes the paths independent of the working folder, for a resume
// from elsewhere.
func (o *Options) absolute() error {
	for _, p := range []*string{&o.Path, &o.Rejects} {
		if *p == "" || *p == "-" || strings.HasPrefix(*p, "/") {
			continue
		}
		abs, err := filepath.Abs(*p)
		if err != nil {
			return fmt.Errorf("resolve %s: %w", *p, err)
		}
		*p = abs
	}
	return nil
}

// Progress is how far a load is.
type Progress struct {
	Phase    string
	Rows     int64 // committed
	Rejected int64
	Bytes    int64 // of the input, decompressed
	Total    int64 // 0 if not known
	Elapsed  time.Duration
}

// errInterrupted marks the end by the caller's context.
var errInterrupted = errors.New("interrupted")
