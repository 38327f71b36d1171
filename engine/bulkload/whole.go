package bulkload

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"headroom/crash"
	"headroom/engine/record"
	"headroom/fail"
)

// stream is the whole input as one COPY reads it. It remembers where chunks
// began, to translate the line that the server names.
//
// Where the connection breaks, pgx returns while it may still read, perhaps
// from a pipe that gives nothing: what is read is not worked on then any more.
type stream struct {
	mu   sync.Mutex // held but while the input is waited for
	over bool

	w       *worker
	split   *record.Splitter
	chunk   record.Chunk
	left    []byte
	strict  bool // a bad record ends it; else it is written down
	records int64
	marks   []mark
	err     error
}

// mark says on which line of the input the n-th record sent begins, from 0.
type mark struct{ n, line int64 }

// errOver is what a COPY that is over reads.
var errOver = errors.New("the copy is over")

// end has what is still read not worked on.
func (s *stream) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
}

// Read gives COPY what it is to take.
func (s *stream) Read(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.left) == 0 && !s.over {
		if s.err == nil {
			s.err = s.next()
		}
		if s.err != nil {
			return 0, s.err
		}
	}
	if s.over {
		return 0, errOver
	}
	n := copy(b, s.left)
	s.left = s.left[n:]
	return n, nil
}

func (s *stream) next() error {
	s.split.Free(s.chunk)
	s.mu.Unlock()
	c, err := s.split.Next()
	s.mu.Lock()
	if s.over {
		return nil
	}
	s.chunk = c
	var bad *record.Bad
	if errors.As(err, &bad) {
		if s.strict {
			return bad
		}
		return s.w.r.rejects.add(*bad)
	}
	if err != nil {
		return err
	}
	s.w.r.bytes.Store(c.End)
	s.marks = append(s.marks, mark{s.records, c.FirstLine})
	if s.strict && s.w.r.m.raw() {
		s.left = c.Data
		s.records += c.Records
		return nil
	}
	var n int64
	if s.left, n, err = s.w.sift(c); err != nil {
		return err
	}
	s.records += n
	if len(s.w.bads) > 0 && s.strict {
		return &s.w.bads[0]
	}
	clear(s.w.told)
	s.w.r.tell()
	return s.w.reject()
}

// line is where in the input the record lies that the server calls by a line.
func (s *stream) line(named int64) int64 {
	if len(s.marks) == 0 {
		return named
	}
	if s.w.r.m.raw() && s.w.r.src.opts.Format == record.CSV { // both count line breaks
		return s.marks[0].line + named - 1
	}
	at := s.marks[0]
	for _, m := range s.marks {
		if m.n < named {
			at = m
		}
	}
	return at.line + named - 1 - at.n
}

// copyAll sends the whole input through one COPY of the main connection.
func (j *job) copyAll(ctx context.Context, freeze, strict bool) (rows int64, err error) {
	r := j.newRun()
	r.sql = copySQL(j.table(), j.m, j.src, j.o, freeze)
	s := &stream{w: &worker{r: r, conn: j.conn.PgConn(), told: map[int64]bool{}}, strict: strict,
		split: record.NewSplitter(j.src.body, j.src.opts, j.Plan.Chunk)}
	tag, err := j.conn.PgConn().CopyFrom(ctx, s, r.sql)
	s.end()
	if s.err != nil && s.err != io.EOF {
		return 0, fmt.Errorf("read the input: %w", s.err)
	}
	if err != nil {
		if line := lineOf(err, j.table().Name); line > 0 && strict {
			bad := &record.Bad{Line: s.line(line), Column: columnOf(err, j.table().Name, j.m.columns), Reason: reasonOf(err)}
			return 0, fmt.Errorf("%w (%w)", bad, err)
		}
		return 0, err
	}
	if got := tag.RowsAffected(); r.counted && got != s.records {
		return 0, fmt.Errorf("copy into %s: the server counts %d rows where %d records were sent", j.table(), got, s.records)
	}
	j.res.Bytes = r.bytes.Load()
	return tag.RowsAffected(), nil
}

// frozen loads with COPY FREEZE in the transaction that empties or makes the
// table. If the server refuses a record, all is rolled back and the chunks'
// way is gone, which can tell one record from the other.
func (j *job) frozen(ctx context.Context) error {
	if j.resumed {
		if err := j.rejects.readKnown(); err != nil {
			return err
		}
	}
	j.rejects.keep = true
	err := j.frozenOnce(ctx)
	if err == nil {
		return nil
	}
	j.State = Planned // all of it was rolled back
	if !ofData(err) {
		return err
	}
	j.o.say("going back to committing in chunks, because: %s", reasonOf(err))
	if err := j.src.Close(); err != nil {
		return err
	}
	if err := j.reopen(); err != nil {
		return err
	}
	j.rejects.again()
	j.Plan.Way = Chunks
	j.Plan.Connections = j.Plan.connections(*j.o)
	j.res.Way = Chunks
	return j.begin(ctx)
}

func (j *job) frozenOnce(ctx context.Context) error {
	tx, err := j.conn.Begin(ctx)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	if err := j.prepareIn(ctx, tx); err != nil {
		return err
	}
	if len(j.Plan.Create) == 0 && !j.Plan.Truncate { // it is empty: this makes its file new
		if err := j.stillEmpty(ctx, tx); err != nil {
			return err
		}
	}
	j.enter("copy")
	rows, err := j.copyAll(ctx, true, false)
	if err != nil {
		return err
	}
	crash.At("bulkload.frozen-copied")
	_, err = tx.Exec(ctx, "insert into headroom.load_chunk (load, start, stop, part, line, records, rejected) values ($1, 0, $2, 0, 1, $3, $4)",
		j.ID, j.res.Bytes, rows, j.rejects.counted())
	if err != nil {
		return fmt.Errorf("record the rows: %w", err)
	}
	if err := j.setState(ctx, tx, Loaded, Planned); err != nil {
		return err
	}
	if j.rejects.counted() > 0 {
		j.res.Rejects = j.o.Rejects
	}
	if err := tx.Commit(ctx); err != nil {
		return fmt.Errorf("commit the rows: %w", err)
	}
	crash.At("bulkload.frozen")
	return nil
}

// stillEmpty truncates the table, which is locked by now, if it is empty.
func (j *job) stillEmpty(ctx context.Context, tx pgx.Tx) error {
	var some bool
	if err := tx.QueryRow(ctx, "select exists (select from "+j.table().ident()+")").Scan(&some); err != nil {
		return err
	}
	if some {
		return movedError(j.table(), "it was empty, and is not")
	}
	_, err := tx.Exec(ctx, "truncate table "+j.table().ident())
	return err
}

// atomic loads in one transaction: all or nothing, as COPY itself. Nothing has
// to be recorded beforehand: the server takes back what is not committed.
func (j *job) atomic(ctx context.Context) (*Result, error) {
	if err := j.atomicIn(ctx); err != nil {
		if ctx.Err() != nil {
			return nil, fail.With(fmt.Errorf("%w: nothing was changed", errInterrupted), fail.Interrupted)
		}
		return nil, fmt.Errorf("%w; nothing was changed", err)
	}
	j.afterwards(ctx)
	j.enter("")
	j.res.Seconds = time.Since(j.begun).Seconds()
	j.res.Rate = float64(j.res.Rows) / j.res.Seconds
	return &j.res, nil
}

func (j *job) atomicIn(ctx context.Context) error {
	tx, err := j.conn.Begin(ctx)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	j.enter("drop")
	if err := j.prepareIn(ctx, tx); err != nil {
		return err
	}
	j.enter("copy")
	fresh := (len(j.Plan.Create) > 0 || j.Plan.Truncate) && j.table().Kind == "r"
	if j.res.Rows, err = j.copyAll(ctx, fresh, true); err != nil {
		return err
	}
	crash.At("bulkload.atomic-copied")
	drops := inOrder(j.Plan.Drops())
	if len(drops) > 0 {
		if err := j.rebuildIn(ctx, tx, drops); err != nil {
			return err
		}
	}
	if err := j.attachIn(ctx, tx); err != nil {
		return err
	}
	crash.At("bulkload.atomic-built")
	if err := tx.Commit(ctx); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}

// rebuildIn makes again, in the one transaction, what was dropped in it.
func (j *job) rebuildIn(ctx context.Context, tx pgx.Tx, drops []Object) error {
	j.enter("build")
	if err := plainPath(ctx, j.conn); err != nil {
		return err
	}
	settings := j.builderSettings()
	delete(settings, "lock_timeout")
	for name, value := range settings {
		if _, err := tx.Exec(ctx, "select pg_catalog.set_config($1, $2, true)", name, value); err != nil {
			return err
		}
	}
	now, err := lookIn(ctx, tx, j.table().OID)
	if err != nil {
		return err
	}
	for _, o := range missing(drops, now) {
		start := time.Now()
		if _, err := tx.Exec(ctx, "select pg_catalog.set_config('default_tablespace', $1, true)", o.Tablespace); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, o.buildSQL()); err != nil {
			return fmt.Errorf("build %s: %w", o, detailed(err))
		}
		j.built(o, time.Since(start))
	}
	if err := j.constraintsIn(ctx, tx, drops); err != nil {
		return detailed(err)
	}
	for _, o := range drops {
		if sql := o.validateSQL(j.table()); sql != "" {
			if _, err := tx.Exec(ctx, sql); err != nil {
				return fmt.Errorf("check %s: %w", o, detailed(err))
			}
		}
	}
	return nil
}

// detailed adds the server's detail, which names the key.
func detailed(err error) error {
	var pe *pgconn.PgError
	if errors.As(err, &pe) && pe.Detail != "" {
		return fmt.Errorf("%w: %s", err, pe.Detail)
	}
	return err
}
