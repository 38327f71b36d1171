package bulkload

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"headroom/crash"
	"headroom/engine/record"
	"headroom/host"
)

// copySQL is the COPY command for records as they are written, or as the
// encoder writes them.
func copySQL(t *Table, m *mapping, src *source, o *Options, freeze bool) string {
	opts := []string{"format text"}
	if m.raw() {
		opts = rawOptions(src.opts)
	}
	if freeze {
		opts = append(opts, "freeze")
	}
	opts = append(opts, "encoding "+host.Literal(o.encoding()))
	return fmt.Sprintf("copy %s (%s) from stdin with (%s)", t.ident(), idents(m.names()), strings.Join(opts, ", "))
}

func rawOptions(r record.Options) []string {
	one := func(name string, c byte) string { return name + " " + host.Literal(string(rune(c))) }
	opts := []string{"format text"}
	if r.Format == record.CSV {
		opts = []string{"format csv"}
		if r.Quote != 0 {
			opts = append(opts, one("quote", r.Quote))
		}
		if r.Escape != 0 {
			opts = append(opts, one("escape", r.Escape))
		}
	}
	if r.Delimiter != 0 {
		opts = append(opts, one("delimiter", r.Delimiter))
	}
	if r.HasNull {
		opts = append(opts, "null "+host.Literal(r.Null))
	}
	return opts
}

func (o *Options) encoding() string { return orElse(o.Encoding, "UTF8") }

// worker sends chunks over one connection.
type worker struct {
	r    *run
	conn *pgconn.PgConn
	enc  encoder
	keep []byte // what is left of a chunk without its bad records
	bads []record.Bad
	told map[int64]bool // lines of the present chunk that are in the rejects
}

// run is one load at work.
type run struct {
	*job
	sql        string // the COPY command
	checker    checker
	counted    bool // the server must count as many rows as there are records
	validating atomic.Bool
	rows       atomic.Int64
	bytes      atomic.Int64
	cut        atomic.Int64    // bad records that the splitter took out
	flight     atomic.Int64    // bytes of chunks that are handed out
	landed     chan struct{}   // told when some have been sent
	done       map[int64]int64 // where committed chunks begin and end
	starts     []int64         // where they begin, sorted
}

// exec runs statements without parameters in the simple protocol: one round
// trip for several.
func exec(ctx context.Context, conn *pgconn.PgConn, sql string) error {
	_, err := conn.Exec(ctx, sql).ReadAll()
	return err
}

// tries is how often a chunk is sent anew after a deadlock or the like.
const tries = 6

// chunk sends one chunk in a transaction of its own, with a note of it. After
// an error of the data it finds the bad records and sends the rest.
func (w *worker) chunk(ctx context.Context, c record.Chunk) error {
	data, records := c.Data, c.Records
	w.bads = w.bads[:0]
	clear(w.told)
	sifted := false
	if w.r.validating.Load() || !w.r.m.raw() {
		var err error
		if data, records, err = w.sift(c); err != nil {
			return err
		}
		sifted = true
	}
	for n := 0; ; n++ {
		err := w.whole(ctx, c, data, records)
		switch {
		case err == nil:
			w.r.rows.Add(records)
			return nil
		case retriable(err) && n < tries:
			if err := pause(ctx, time.Duration(50<<n)*time.Millisecond); err != nil {
				return err
			}
		case !ofData(err):
			return err
		case !sifted:
			w.r.validating.Store(true)
			var serr error
			if data, records, serr = w.sift(c); serr != nil {
				return serr
			}
			sifted = true
			if len(w.bads) == 0 {
				return w.isolate(ctx, c, data, err)
			}
		default:
			return w.isolate(ctx, c, data, err)
		}
	}
}

// whole sends all of a chunk at once.
func (w *worker) whole(ctx context.Context, c record.Chunk, data []byte, records int64) error {
	if err := exec(ctx, w.conn, "begin"); err != nil {
		return err
	}
	err := w.send(ctx, data, records)
	if err == nil {
		err = w.reject()
	}
	if err == nil {
		crash.At("bulkload.chunk-sent")
		err = exec(ctx, w.conn, w.note(c, 0, records, int64(len(w.bads)))+"; commit")
		if done(err) { // an interrupted run of this load has it in after all
			w.bads = nil
			err = nil
			if rerr := w.rollback(ctx); rerr != nil {
				return rerr
			}
			return nil
		}
	}
	if err != nil {
		return errors.Join(err, w.rollback(ctx))
	}
	crash.At("bulkload.chunk-committed")
	return nil
}

// done says that the note of a chunk was there already.
func done(err error) bool {
	var pe *pgconn.PgError
	return errors.As(err, &pe) && pe.Code == "23505" && pe.SchemaName == "headroom" && pe.TableName == "load_chunk"
}

func (w *worker) rollback(ctx context.Context) error {
	if w.conn.IsClosed() || w.conn.TxStatus() == 'I' {
		return nil
	}
	return exec(ctx, w.conn, "rollback")
}

// note is the statement that says, in the transaction of the rows themselves,
// that they are in. The note's xmin is that of the rows: it is how they can be
// told from others.
func (w *worker) note(c record.Chunk, part int, records, rejected int64) string {
	return fmt.Sprintf("insert into headroom.load_chunk (load, start, stop, part, line, records, rejected) values (%s, %d, %d, %d, %d, %d, %d)",
		host.Literal(w.r.ID), c.Start, c.End, part, c.FirstLine, records, rejected)
}

// send copies data and makes sure that the server saw as many rows.
func (w *worker) send(ctx context.Context, data []byte, records int64) error {
	if len(data) == 0 {
		return nil
	}
	tag, err := w.conn.CopyFrom(ctx, bytes.NewReader(data), w.r.sql)
	if err != nil {
		return err
	}
	if got := tag.RowsAffected(); w.r.counted && got != records {
		return fmt.Errorf("copy into %s: the server counts %d rows where %d records were sent", w.r.table(), got, records)
	}
	return nil
}

// sift parses a chunk and takes out the records that would surely be refused.
func (w *worker) sift(c record.Chunk) (data []byte, records int64, err error) {
	w.bads = w.bads[:0]
	w.keep, w.enc.out = w.keep[:0], w.enc.out[:0]
	w.enc.m = w.r.m
	clean := w.r.m.paths == nil && w.r.checker.clean(c.Data, w.r.src.opts.Format != record.CSV)
	from := int64(0) // what is good since here has not been kept yet
	err = w.each(c.Data, func(rec *record.Rec, bad *record.Bad, start, end int64) {
		if bad == nil {
			if column, why := w.judge(rec, clean); why != "" {
				bad = &record.Bad{Line: rec.Line, Column: column, Reason: why, Raw: bytes.Clone(rec.Raw)}
			}
		}
		if bad != nil {
			bad.Line += c.FirstLine - 1
			w.bads = append(w.bads, *bad)
			if w.r.m.raw() {
				w.keep = append(w.keep, c.Data[from:start]...)
				from = end
			}
			return
		}
		records++
	})
	if err != nil {
		return nil, 0, err
	}
	switch {
	case !w.r.m.raw():
		return w.enc.out, records, nil
	case len(w.bads) == 0:
		return c.Data, records, nil
	}
	w.keep = append(w.keep, c.Data[from:]...)
	return w.keep, records, nil
}

// judge is the verdict on a record; what passes and is not sent as it is, is
// encoded at once.
func (w *worker) judge(rec *record.Rec, clean bool) (column, why string) {
	if w.r.m.raw() {
		return w.r.checker.record(rec.Fields, clean)
	}
	mark := len(w.enc.out)
	if column, why = judge(w.r.m, &w.r.checker, rec, clean); why == "" {
		column, why = w.enc.row(rec)
	}
	if why != "" {
		w.enc.out = w.enc.out[:mark]
	}
	return column, why
}

// each walks through the records of a chunk, good or bad; start and end are
// where they lie in it, and lines count from its beginning.
func (w *worker) each(data []byte, f func(rec *record.Rec, bad *record.Bad, start, end int64)) error {
	o := w.r.src.opts
	o.Header = false
	r := record.NewReader(bytes.NewReader(data), o)
	var end int64
	var rec record.Rec // one for all: the pointer makes it live on the heap
	var err error
	for {
		if rec, err = r.Next(); err == nil {
			f(&rec, nil, rec.Start, rec.End)
			end = rec.End
			continue
		}
		var bad *record.Bad
		if !errors.As(err, &bad) {
			break
		}
		b := *bad
		b.Raw = bytes.Clone(data[end:bad.End])
		f(nil, &b, end, bad.End)
		end = bad.End
	}
	if err != io.EOF {
		return err
	}
	return nil
}

// reject writes the bad records of a chunk down, before it is committed.
func (w *worker) reject() error {
	for _, b := range w.bads {
		if w.told[b.Line] { // by a try that was rolled back
			continue
		}
		w.told[b.Line] = true
		b.Raw = bytes.TrimRight(b.Raw, "\r\n")
		if err := w.r.rejects.add(b); err != nil {
			return err
		}
	}
	return w.r.rejects.sync()
}

// ofData says whether the server refused what was sent, so that other records
// may well pass.
func ofData(err error) bool {
	var pe *pgconn.PgError
	if !errors.As(err, &pe) || done(err) {
		return false
	}
	switch {
	case strings.HasPrefix(pe.Code, "22"), strings.HasPrefix(pe.Code, "23"), strings.HasPrefix(pe.Code, "P0"), strings.HasPrefix(pe.Code, "44"):
		return true
	case strings.HasPrefix(pe.Code, "38"), strings.HasPrefix(pe.Code, "54"):
		return true
	}
	return false
}

// retriable says whether the same may pass a moment later.
func retriable(err error) bool {
	var pe *pgconn.PgError
	return errors.As(err, &pe) && (pe.Code == "40P01" || pe.Code == "40001" || pe.Code == "55P03")
}

// pause waits, or returns why it cannot.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}

// lineOf finds the line that an error of COPY names: of the data sent, from 1;
// 0 if it names none. The context reads `COPY table, line 5, column age: …`,
// in the server's language; the table's name and the value may hold anything.
func lineOf(err error, table string) int64 {
	var pe *pgconn.PgError
	if !errors.As(err, &pe) {
		return 0
	}
	prefix := "COPY " + table + ", "
	for at := 0; ; {
		i := strings.Index(pe.Where[at:], prefix)
		if i < 0 {
			return 0
		}
		at += i + len(prefix)
		if start := at - len(prefix); start > 0 && pe.Where[start-1] != '\n' {
			continue
		}
		_, rest, _ := strings.Cut(pe.Where[at:], " ")
		end := 0
		for end < len(rest) && rest[end] >= '0' && rest[end] <= '9' {
			end++
		}
		if n, err := strconv.ParseInt(rest[:end], 10, 63); err == nil {
			return n
		}
	}
}

// columnOf finds the column that an error of COPY names, if one of these.
func columnOf(err error, table string, columns []Column) string {
	var pe *pgconn.PgError
	if !errors.As(err, &pe) {
		return ""
	}
	if pe.ColumnName != "" {
		return pe.ColumnName
	}
	_, rest, found := strings.Cut(pe.Where, "COPY "+table+", ")
	if !found {
		return ""
	}
	for _, c := range columns {
		if strings.Contains(rest, ", column "+c.Name+":") || strings.HasSuffix(rest, ", column "+c.Name) {
			return c.Name
		}
	}
	return ""
}

// reasonOf is the server's own words on a record, in one line.
func reasonOf(err error) string {
	var pe *pgconn.PgError
	if !errors.As(err, &pe) {
		return err.Error()
	}
	out := pe.Message
	if pe.Detail != "" {
		out += ": " + pe.Detail
	}
	return strings.Join(strings.Fields(out), " ")
}
