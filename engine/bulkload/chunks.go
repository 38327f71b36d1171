package bulkload

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"headroom/engine/record"
)

// newRun is the part of the job that moves rows.
func (j *job) newRun() *run {
	r := &run{job: j, sql: copySQL(j.table(), j.m, j.src, j.o, false), checker: j.checker,
		counted: j.table().Kind == "r" && (!j.table().RowTriggers || j.o.NoTriggers), done: map[int64]int64{}, landed: make(chan struct{}, 1)}
	r.checker.filled = j.table().RowTriggers
	return r
}

// chunks sends what of the input is not in yet, over several connections.
func (j *job) chunks(ctx context.Context) (err error) {
	j.enter("copy")
	r := j.newRun()
	if err := r.recall(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.rejects.sync()) }()
	split := record.NewSplitter(j.src.body, j.src.opts, j.Plan.Chunk)
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	queue := make(chan record.Chunk, j.Plan.Connections)
	if j.crew == nil {
		j.crew = j.call(ctx)
	}
	var all sync.WaitGroup
	var once sync.Once
	var first error
	end := func(err error) { once.Do(func() { first = err; stop(err) }) }
	for range j.Plan.Connections {
		all.Go(func() {
			if err := r.work(ctx, queue, split); err != nil {
				end(err)
			}
		})
	}
	if err := r.read(ctx, split, queue); err != nil {
		end(err)
	}
	close(queue)
	all.Wait()
	if first == nil {
		j.res.Bytes, j.cutBad = r.bytes.Load(), r.cut.Load()
		if r.rejects.counted() > 0 {
			j.res.Rejects = j.o.Rejects
		}
	}
	return first
}

// recall reads which chunks are in, and which lines are rejected, already.
func (r *run) recall(ctx context.Context) error {
	rows, err := r.conn.Query(ctx, "select start, stop, part, records from headroom.load_chunk where load = $1", r.ID)
	if err != nil {
		return fmt.Errorf("read how far the load is: %w", err)
	}
	var start, stop, records int64
	var part int
	_, err = pgx.ForEachRow(rows, []any{&start, &stop, &part, &records}, func() error {
		if part == 0 {
			r.done[start] = stop
			r.starts = append(r.starts, start)
		}
		r.rows.Add(records)
		return nil
	})
	if err != nil {
		return fmt.Errorf("read how far the load is: %w", err)
	}
	slices.Sort(r.starts)
	if r.resumed {
		return r.rejects.readKnown()
	}
	return nil
}

// isDone says whether a chunk is in already. It fails where the input is cut
// in other places than before: rows would come twice.
func (r *run) isDone(c record.Chunk) (bool, error) {
	stop, done := r.done[c.Start]
	next, _ := slices.BinarySearch(r.starts, c.Start+1)
	if done && stop != c.End || !done && next < len(r.starts) && r.starts[next] < c.End {
		return false, fmt.Errorf("resume: the input is cut at other places than before, near byte %d", c.Start)
	}
	return done, nil
}

// read cuts the input and hands the chunks out.
func (r *run) read(ctx context.Context, split *record.Splitter, queue chan<- record.Chunk) error {
	for {
		c, err := split.Next()
		var bad *record.Bad
		switch {
		case err == io.EOF:
			return nil
		case errors.As(err, &bad):
			r.cut.Add(1)
			if err := r.rejects.add(*bad); err != nil {
				return err
			}
			continue
		case err != nil:
			return fmt.Errorf("read the input: %w", err)
		}
		r.bytes.Store(c.End)
		done, err := r.isDone(c)
		if err != nil {
			return err
		}
		if done {
			split.Free(c)
			continue
		}
		if err := r.room(ctx, int64(len(c.Data))); err != nil {
			return err
		}
		select {
		case queue <- c:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// flightMost bounds what is read and not sent, where records are huge.
const flightMost = 24 << 20

// room waits until a chunk of n bytes may be handed out: at once, unless much
// is on its way already.
func (r *run) room(ctx context.Context, n int64) error {
	for {
		if now := r.flight.Load(); now == 0 || now+n <= flightMost {
			r.flight.Add(n)
			return nil
		}
		select {
		case <-r.landed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// work sends chunks over one connection until there are no more.
func (r *run) work(ctx context.Context, queue <-chan record.Chunk, split *record.Splitter) error {
	conn, err := r.crew.take(ctx)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	w := &worker{r: r, conn: conn.PgConn(), told: map[int64]bool{}}
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case c, ok := <-queue:
			if !ok {
				return nil
			}
			if err := w.chunk(ctx, c); err != nil {
				if ctx.Err() != nil {
					return context.Cause(ctx)
				}
				return err
			}
			r.flight.Add(-int64(len(c.Data)))
			split.Free(c)
			select {
			case r.landed <- struct{}{}:
			default:
			}
			r.tell()
		}
	}
}

// tell reports progress.
func (r *run) tell() {
	if r.o.Progress == nil {
		return
	}
	total := int64(0)
	if r.Plan.Input.Known {
		total = r.Plan.Input.Bytes
	}
	r.o.Progress(Progress{Phase: "copy", Rows: r.rows.Load(), Rejected: r.rejects.counted(), Bytes: r.bytes.Load(), Total: total, Elapsed: time.Since(r.begun)})
}
