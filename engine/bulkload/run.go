package bulkload

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"headroom/crash"
	"headroom/fail"
)

// Result is what a load did.
type Result struct {
	ID       string    `json:"id"`
	Table    string    `json:"table"`
	Rows     int64     `json:"rows"` // committed, over all runs of this load
	Rejected int64     `json:"rejected"`
	Rejects  string    `json:"rejects,omitempty"` // the file of bad records, if there were any
	Bytes    int64     `json:"bytes"`             // of input read in this run, decompressed
	Seconds  float64   `json:"seconds"`
	Rate     float64   `json:"rows_per_second"`
	Way      Way       `json:"way"`
	Phases   []Phase   `json:"phases"`
	Rebuilt  []Rebuilt `json:"rebuilt"`
	Notes    []string  `json:"notes,omitempty"`
}

// Rebuilt is an object that was made again, and the time that it took.
type Rebuilt struct {
	Object  string  `json:"object"`
	Seconds float64 `json:"seconds"`
}

// job is a load with what it needs to work.
type job struct {
	*Journal
	o       *Options
	conn    *pgx.Conn
	src     *source
	m       *mapping
	checker checker
	rejects *rejects
	crew    *crew
	cutBad  int64 // bad records that are in no chunk
	resumed bool
	durable string // the user's synchronous_commit, for the last commit; "" if it is in force
	res     Result

	mu    sync.Mutex
	phase string
	since time.Time
	begun time.Time
}

func (j *job) table() *Table { return &j.Plan.Table }

// enter ends a phase and begins the next.
func (j *job) enter(phase string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	now := time.Now()
	if j.phase != "" {
		j.res.Phases = append(j.res.Phases, Phase{Name: j.phase, Seconds: now.Sub(j.since).Seconds()})
	}
	j.phase, j.since = phase, now
	if j.o.Progress != nil && phase != "" {
		j.o.Progress(Progress{Phase: phase, Rows: j.res.Rows, Elapsed: now.Sub(j.begun)})
	}
}

func (j *job) built(o Object, d time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.res.Rebuilt = append(j.res.Rebuilt, Rebuilt{Object: o.String(), Seconds: d.Seconds()})
}

// note keeps what the report should say.
func (j *job) note(format string, args ...any) {
	j.mu.Lock()
	j.res.Notes = append(j.res.Notes, fmt.Sprintf(format, args...))
	j.mu.Unlock()
}

// Close ends the connection and closes the input.
func (j *job) Close() {
	if j.src != nil {
		_ = j.src.Close()
	}
	if j.rejects != nil {
		_ = j.rejects.close()
	}
	if j.crew != nil {
		j.crew.dismiss()
	}
	if j.conn != nil {
		_ = j.conn.Close(context.Background())
	}
}

// Run loads. After an error the table is as it was, or the hint says how to go
// on (resume) or back (restore). A context that ends leaves the load open for
// either.
func Run(ctx context.Context, o Options) (*Result, error) {
	j, err := prepare(ctx, &o)
	if err != nil {
		return nil, err
	}
	defer j.Close()
	if err := j.alone(ctx); err != nil {
		return nil, err
	}
	if o.Atomic {
		return j.atomic(ctx)
	}
	if err := makeTables(ctx, j.conn); err != nil {
		return nil, err
	}
	if j.Plan.Way == Chunks {
		j.crew = j.call(ctx)
	}
	if err := hold(ctx, j.conn, j.ID); err != nil {
		return nil, err
	}
	if err := j.hurry(ctx); err != nil {
		return nil, err
	}
	if err := j.store(ctx); err != nil {
		return nil, err
	}
	return j.goOn(ctx)
}

// hurry lets the steps of a load commit without waiting for the disk: they
// become durable in their order, so that no step is there without those before
// it. The last one waits, and with it all.
func (j *job) hurry(ctx context.Context) error {
	if err := j.conn.QueryRow(ctx, "select pg_catalog.current_setting('synchronous_commit')").Scan(&j.durable); err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	_, err := j.conn.Exec(ctx, "set synchronous_commit = off")
	return err
}

// store writes down what will be dropped, in the file and in the table.
func (j *job) store(ctx context.Context) error {
	for _, o := range inOrder(j.Plan.Drops()) {
		j.Restore = append(j.Restore, o.restoreSQL(j.table())...)
	}
	if j.filed() {
		if err := j.writeFile(j.o.Dir); err != nil {
			return err
		}
	}
	crash.At("bulkload.filed")
	if err := j.writeRow(ctx, j.conn); err != nil {
		return err
	}
	crash.At("bulkload.stored")
	return nil
}

// goOn does what is left of a load, from whatever state.
func (j *job) goOn(ctx context.Context) (*Result, error) {
	err := j.steps(ctx)
	j.enter("")
	if err == nil {
		j.res.Seconds = time.Since(j.begun).Seconds()
		j.res.Rate = float64(j.res.Rows) / j.res.Seconds
		return &j.res, nil
	}
	return nil, j.settle(ctx, err)
}

// steps takes a load from its state to the end.
func (j *job) steps(ctx context.Context) error {
	if j.State == Planned {
		j.before(ctx)
		j.enter("drop")
		if j.Plan.Way == Frozen {
			if err := j.frozen(ctx); err != nil {
				return err
			}
		} else if err := j.begin(ctx); err != nil {
			return err
		}
	}
	if j.State == Loading {
		if err := j.chunks(ctx); err != nil {
			return err
		}
		if err := j.setState(ctx, j.conn, Loaded, Loading); err != nil {
			return err
		}
		crash.At("bulkload.loaded")
	}
	if err := j.rebuild(ctx); err != nil {
		return err
	}
	if err := j.attach(ctx); err != nil {
		return err
	}
	if err := j.end(ctx, Done, Loaded); err != nil {
		return err
	}
	j.afterwards(ctx)
	return nil
}

// end records that nothing is left to do.
func (j *job) end(ctx context.Context, s State, from State) error {
	tx, err := j.conn.Begin(ctx)
	if err != nil {
		return fmt.Errorf("record load %s as %s: %w", j.ID, s, err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	err = tx.QueryRow(ctx, "select coalesce(sum(records), 0)::pg_catalog.int8, coalesce(sum(rejected), 0)::pg_catalog.int8 from headroom.load_chunk where load = $1", j.ID).
		Scan(&j.res.Rows, &j.res.Rejected)
	if err != nil {
		return fmt.Errorf("record load %s as %s: %w", j.ID, s, err)
	}
	j.res.Rejected += j.cutBad
	if j.durable != "" {
		if _, err := tx.Exec(ctx, "select pg_catalog.set_config('synchronous_commit', $1, true)", j.durable); err != nil {
			return fmt.Errorf("record load %s as %s: %w", j.ID, s, err)
		}
	}
	if _, err := tx.Exec(ctx, "delete from headroom.load_chunk where load = $1", j.ID); err != nil {
		return fmt.Errorf("record load %s as %s: %w", j.ID, s, err)
	}
	if err := j.setState(ctx, tx, s, from); err != nil {
		return err
	}
	crash.At("bulkload.ending")
	if err := tx.Commit(ctx); err != nil {
		return fmt.Errorf("record load %s as %s: %w", j.ID, s, err)
	}
	crash.At("bulkload.ended")
	if j.filed() {
		if err := j.writeFile(j.o.Dir); err != nil {
			j.o.say("%v", err)
		}
	}
	return nil
}

// filed says whether there is something to put back, so that it must be in a
// file as well as in the table.
func (j *job) filed() bool { return len(j.Plan.Drops()) > 0 || len(j.Plan.Create) > 0 }

// before frees the room of dead rows, where there are many. The rows get in
// whatever becomes of it.
func (j *job) before(ctx context.Context) { j.tidy(ctx, j.Plan.Before) }

// afterwards makes statistics, where that is due. The rows are in whatever
// becomes of it.
func (j *job) afterwards(ctx context.Context) { j.tidy(ctx, j.Plan.After) }

// tidy runs a command such as vacuum on the table; "" for none.
func (j *job) tidy(ctx context.Context, command string) {
	if command == "" {
		return
	}
	j.enter(command)
	conn, err := dial(ctx, j.o.Config, j.builderSettings())
	if err == nil {
		defer conn.Close(context.WithoutCancel(ctx))
		_, err = conn.Exec(ctx, command+" "+j.table().ident())
	}
	if err != nil {
		j.note("%s was not done: %v", command, err)
	}
}

// settle decides what an error leads to: to an open load if the way to the
// server, or the process itself, is ending; else the table is put back.
func (j *job) settle(ctx context.Context, err error) error {
	open := func(err error) error {
		return fail.Hint(err, "go on with: headroom load resume %s; or put all back: headroom load restore %s", j.ID, j.ID)
	}
	switch {
	case ctx.Err() != nil:
		if j.State == Planned {
			return fail.With(fmt.Errorf("%w before anything was changed", errInterrupted), fail.Interrupted)
		}
		return fail.With(open(fmt.Errorf("%w: the load is open", errInterrupted)), fail.Interrupted)
	case j.State == Undoing:
		return open(err)
	case !j.alive(ctx):
		return open(err)
	case j.State == Planned:
		if serr := j.setState(ctx, j.conn, Undone, Planned); serr != nil {
			return errors.Join(err, serr)
		}
		if j.filed() {
			_ = j.writeFile(j.o.Dir) // the table has it
		}
		return err
	}
	if full(err) {
		return fail.Hint(err, "make room for the server, then go on: headroom load resume %s; or put all back: headroom load restore %s", j.ID, j.ID)
	}
	if passing(err) {
		return open(err)
	}
	return j.failed(ctx, err)
}

// passing says whether an error has nothing to do with the rows, so that a
// resume may well succeed: a lock that is held, a session that was ended, a
// line that was cut.
func passing(err error) bool {
	var pe *pgconn.PgError
	if errors.As(err, &pe) {
		return pe.Code == "55P03" || strings.HasPrefix(pe.Code, "57") || strings.HasPrefix(pe.Code, "08")
	}
	var ne net.Error
	return errors.As(err, &ne) || errors.Is(err, io.ErrUnexpectedEOF) && strings.Contains(err.Error(), "conn")
}

// full says whether the server ran out of disk space: taking the rows out and
// building what was dropped would fail as well.
func full(err error) bool {
	var pe *pgconn.PgError
	return errors.As(err, &pe) && pe.Code == "53100"
}

// alive says whether the server still answers.
func (j *job) alive(ctx context.Context) bool {
	ctx, stop := context.WithTimeout(ctx, 10*time.Second)
	defer stop()
	return !j.conn.IsClosed() && j.conn.Ping(ctx) == nil
}
