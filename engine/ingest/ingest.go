// Package ingest brings a stream of records (JSON lines, CSV, text) into one
// keyed table: it reads (engine/record), picks keys and columns, writes
// (engine/upsert), sets bad records aside, and remembers how far the input is
// in for good, so that an interrupted run goes on without loss. What lies behind
// that is written again, which in an upsert is the same as once; in mode add the
// database itself tells which rows are in (upsert.Options.Source), and those are
// passed over.
package ingest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"headroom/engine/readtable"
	"headroom/engine/record"
	"headroom/engine/upsert"
	"headroom/fail"
)

// Options say what to bring where. Config, Into and Key are needed.
type Options struct {
	Config *pgx.ConnConfig
	Into   string // the table, as it is written in a statement

	Key     []Field
	Columns []Field // the other columns; none: the whole record goes into Doc
	Doc     string  // the column of the document; "" is doc
	Create  bool    // make the table if it is not there; types are guessed where not given

	Inputs []string  // files; none or "-" is Stdin
	Stdin  io.Reader // plain or compressed
	Format string    // csv, tsv, text, ndjson; "": by name, else by content
	Read   record.Options
	Header *bool    // nil: by content
	Fields []string // names of the columns of input without a header

	Upsert     upsert.Options // its Config, Table, Reject and Say are set here
	Rejects    string         // file; "": the first bad record ends the run
	MaxRejects int64          // below 0: any number
	Checkpoint string         // file; "": none

	ReadTable readtable.Way // "": none
	Refresh   time.Duration
	Indexes   []string // of the read table

	Say      func(string) // what an admin should know, in one line each
	Progress func(Progress)
}

// defaults of a run.
const (
	// DefaultMaxRecord bounds a record, in bytes, so that memory stays small.
	DefaultMaxRecord = 16 << 20
	// DefaultMaxMemory bounds the rows on their way, in bytes.
	DefaultMaxMemory = 24 << 20
	// DefaultRefresh is the time between two refreshes of the read table.
	DefaultRefresh = time.Minute

	saveEvery   = 250 * time.Millisecond
	tellEvery   = 4                // times of saveEvery
	flushLimit  = 20 * time.Second // for what was read before an interrupt
	markRecords = 256
	markBytes   = 256 << 10
)

// Position is how far the inputs are in for good: all records before it are
// committed at the chosen durability, or set aside as bad.
type Position struct {
	Input  int   `json:"input"`  // index of the input
	Offset int64 `json:"offset"` // bytes of its decompressed content
	Line   int64 `json:"line"`   // the line that begins there
}

// Progress is how far a run is.
type Progress struct {
	Elapsed  time.Duration
	Rows     int64 // taken for writing
	Rejected int64 // bad records of any kind
	Write    upsert.Stats
	Acked    Position
}

// Summary is what a run did. It is also valid beside an error.
type Summary struct {
	Table     string         `json:"table"`
	Seconds   float64        `json:"seconds"`
	Rows      int64          `json:"rows"`       // acknowledged or refused, of those read
	Known     int64          `json:"already_in"` // of Rows: behind the checkpoint and in, so not added again
	Written   int64          `json:"written"`    // rows sent: equal keys of a batch are one
	Rejected  int64          `json:"rejected"`   // bad records
	Retries   int64          `json:"retries"`
	P50       float64        `json:"batch_p50_seconds"`
	P99       float64        `json:"batch_p99_seconds"`
	WAL       int64          `json:"wal_bytes"` // of the whole server meanwhile; -1: not told
	Strategy  string         `json:"strategy"`
	Mode      string         `json:"mode"`
	Durable   string         `json:"durability"`
	Acked     Position       `json:"acknowledged"`
	Input     string         `json:"input"`   // the one that Acked speaks of
	Resumed   *Position      `json:"resumed"` // where the run began, if not at the beginning
	Complete  bool           `json:"complete"`
	Refreshes int            `json:"refreshes"`
	Read      string         `json:"read_table,omitempty"`
	Last      readtable.Done `json:"-"` // the last refresh
}

func (o Options) say(format string, args ...any) {
	if o.Say != nil {
		o.Say(fmt.Sprintf(format, args...))
	}
}

func (o Options) withDefaults() (Options, error) {
	if len(o.Inputs) == 0 {
		o.Inputs = []string{"-"}
	}
	if len(o.Inputs) > maxInputs {
		return o, fail.With(fmt.Errorf("read inputs: %d files, at most %d", len(o.Inputs), maxInputs), fail.Usage)
	}
	for i, in := range o.Inputs {
		if in == "-" && i > 0 {
			return o, fail.With(errors.New("read inputs: - (standard input) must stand alone or first"), fail.Usage)
		}
	}
	if o.Doc == "" {
		o.Doc = "doc"
	}
	if o.Read.MaxRecord == 0 {
		o.Read.MaxRecord = DefaultMaxRecord
	}
	if o.Upsert.MaxMemory == 0 {
		o.Upsert.MaxMemory = DefaultMaxMemory
	}
	if o.Refresh == 0 {
		o.Refresh = DefaultRefresh
	}
	if len(o.Key) == 0 {
		return o, fail.With(fail.Hint(errors.New("no key given"), "name its columns: --key id,ts"), fail.Usage)
	}
	return o, o.Read.Check()
}

// Run reads all inputs to their end. When ctx ends it stops reading, writes
// what was read, and returns ctx's error with a Summary of what is in.
func Run(ctx context.Context, o Options) (Summary, error) {
	o, err := o.withDefaults()
	if err != nil {
		return Summary{}, err
	}
	r := &run{o: o, begun: time.Now()}
	defer r.close()
	if err := r.open(ctx); err != nil {
		return r.summary(), err
	}
	err = r.work(ctx)
	return r.summary(), err
}

// run is one run.
type run struct {
	o       Options
	begun   time.Time
	saved   checkpoint
	in      *input
	fields  []Field // key and columns
	table   upsert.Table
	writer  *upsert.Writer
	rejects *record.Rejects
	keeper  *keeper
	pump    pump
	acked   Position
	resumed *Position
	reached *Position // all before it is in; known at the end
	reading bool      // the reader hangs in a read
	done    bool
}

func (r *run) close() {
	if r.in != nil && !r.reading {
		r.in.close()
	}
	if r.keeper != nil {
		r.keeper.close()
	}
}

// open does all that can fail before the first row.
func (r *run) open(ctx context.Context) (err error) {
	if err := r.resume(); err != nil {
		return err
	}
	if r.in, err = r.openInput(r.acked.Input); err != nil {
		return err
	}
	if err := r.columns(); err != nil {
		return err
	}
	if err := r.prepare(ctx); err != nil {
		return err
	}
	if r.in.convert, err = r.converter(r.in); err != nil {
		return err
	}
	if err := r.in.skipTo(r.acked); err != nil {
		return err
	}
	if r.rejects, err = record.OpenRejects(r.o.Rejects, r.o.MaxRejects); err != nil {
		return err
	}
	u := r.o.Upsert
	u.Config, u.Table, u.Say, u.Reject = r.o.Config, r.table, r.o.Say, r.refused
	if r.writer, err = upsert.Open(ctx, u); err != nil {
		return err
	}
	return r.begin()
}

// prepare makes and looks at the tables.
func (r *run) prepare(ctx context.Context) error {
	conn, err := Connect(ctx, r.o.Config)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	var key, values []string
	for i, f := range r.fields {
		if i < len(r.o.Key) {
			key = append(key, f.Name)
		} else {
			values = append(values, f.Name)
		}
	}
	if r.o.Create {
		if err := r.create(ctx, conn); err != nil {
			return err
		}
	}
	if r.table, err = upsert.Describe(ctx, conn, r.o.Into, key, values); err != nil {
		return err
	}
	if r.o.ReadTable != "" {
		t, err := readtable.Setup(ctx, conn, r.o.Into, r.o.ReadTable, r.o.Indexes)
		if err != nil {
			return err
		}
		r.keeper = newKeeper(ctx, r.o, t)
	}
	return nil
}

// Connect opens a connection with time limits that suit questions and small
// changes.
func Connect(ctx context.Context, c *pgx.ConnConfig) (*pgx.Conn, error) {
	c = c.Copy()
	c.DefaultQueryExecMode = pgx.QueryExecModeExec
	conn, err := pgx.ConnectConfig(ctx, c)
	if err != nil {
		return nil, err
	}
	if _, err := conn.Exec(ctx, "SET statement_timeout = '60s'; SET lock_timeout = '10s'", pgx.QueryExecModeSimpleProtocol); err != nil {
		return nil, errors.Join(fmt.Errorf("ready the session: %w", err), conn.Close(ctx))
	}
	return conn, nil
}

// work reads and writes until the end, an error or an interrupt.
func (r *run) work(ctx context.Context) error {
	ended := make(chan error, 1)
	go func() { ended <- r.pump.run(ctx, r) }()
	tick := time.NewTicker(saveEvery)
	defer tick.Stop()
	var err error
	for n, waiting := 1, true; waiting; n++ {
		select {
		case err = <-ended:
			waiting = false
		case <-ctx.Done():
			// The reader may hang in a read that nothing ends; it adds nothing more.
			err, waiting = context.Cause(ctx), false
		case <-tick.C:
			if err = r.save(); err != nil {
				waiting = false
			}
			if n%tellEvery == 0 {
				r.tell()
			}
		}
	}
	at, over := r.pump.stop()
	r.reading = !over
	return r.finish(ctx, at, err)
}

// finish flushes, remembers, and closes. Reading has come to at; cause is why
// it ended, nil at the end of the inputs.
func (r *run) finish(ctx context.Context, at *Position, cause error) error {
	last, stop := context.WithTimeout(context.WithoutCancel(ctx), flushLimit)
	defer stop()
	if cause == nil {
		last = ctx
	}
	var errs []error
	flushed := r.writer.Flush(last)
	if n := r.writer.Stats().Known; n > 0 {
		r.o.say("%d rows behind the checkpoint were in already and were not added again", n)
	}
	r.done = flushed == nil && cause == nil
	if flushed == nil && at != nil {
		r.reached = at
	}
	errs = append(errs, r.save())
	if r.done && errs[0] == nil && r.o.Upsert.Source != "" {
		if err := r.writer.Forget(last); err != nil {
			r.o.say("all is in, but notes of it are left, which do no harm: %v", err)
		}
	}
	errs = append(errs, r.writer.Close(last), r.rejects.Close())
	r.tell()
	if r.keeper != nil {
		errs = append(errs, r.keeper.end(ctx, cause == nil && flushed == nil))
	}
	if cause != nil { // the writer's own error is most often the same
		return cause
	}
	for _, err := range append([]error{flushed}, errs...) {
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *run) tell() {
	if r.o.Progress == nil {
		return
	}
	st := r.writer.Stats()
	r.o.Progress(Progress{Elapsed: time.Since(r.begun), Rows: st.Rows, Rejected: r.rejects.Count(), Write: st, Acked: r.acked})
}

func (r *run) summary() Summary {
	s := Summary{Table: r.o.Into, Seconds: time.Since(r.begun).Seconds(), Acked: r.acked, Resumed: r.resumed, Complete: r.done, WAL: -1,
		Mode: string(r.o.Upsert.Mode), Durable: string(r.o.Upsert.Durability)}
	if r.acked.Input < len(r.o.Inputs) {
		s.Input = r.o.Inputs[r.acked.Input]
	}
	if r.rejects != nil {
		s.Rejected = r.rejects.Count()
	}
	if r.writer != nil {
		st := r.writer.Stats()
		s.Table = r.table.SQL()
		s.Rows, s.Known, s.Written, s.Retries, s.P50, s.P99, s.WAL, s.Strategy = st.Rows, st.Known, st.Written, st.Retries, st.P50, st.P99, st.WALBytes, string(st.Strategy)
	}
	if r.keeper != nil {
		s.Read, s.Refreshes, s.Last = r.keeper.told()
	}
	return s
}

// refused sets a row aside that the server does not take.
func (r *run) refused(row upsert.Row, why error) error {
	b := record.Bad{Line: row.Line, Reason: why.Error()}
	all := slices.Concat(row.Key, row.Values)
	if n := len(r.fields); r.fields[n-1].From == wholeRecord {
		all = all[n-1:] // that is the record as it came
	}
	for _, v := range all {
		if len(b.Raw) > 0 {
			b.Raw = append(b.Raw, '\t')
		}
		b.Raw = append(b.Raw, v...)
	}
	if err := r.rejects.Add(r.named(b, inputOf(row.Seq))); err != nil || r.o.Upsert.Source == "" {
		return err
	}
	return r.rejects.Sync() // no later run sees this row again
}

// named says which input a bad record is of, where there are several.
func (r *run) named(b record.Bad, input int) record.Bad {
	if len(r.o.Inputs) > 1 {
		b.Reason = r.o.Inputs[input] + ": " + b.Reason
	}
	return b
}

// openFile opens an input.
func (r *run) openFile(name string) (io.Reader, io.Closer, error) {
	if name == "-" {
		if r.o.Stdin == nil {
			return nil, nil, errors.New("read standard input: there is none")
		}
		return r.o.Stdin, nil, nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, nil, fmt.Errorf("read input: %w", err)
	}
	if st, err := f.Stat(); err == nil && st.IsDir() {
		return nil, nil, errors.Join(fmt.Errorf("read input %s: it is a folder", name), f.Close())
	}
	return f, f, nil
}
