package upsert

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"headroom/fail"
	"headroom/host"
)

var (
	//go:embed source.sql
	sourceSQL string
	//go:embed source_note.sql
	sourceNoteSQL string
	//go:embed source_lanes.sql
	sourceLanesSQL string
)

const sourceTable = "headroom.upsert_source"

// fact says which rows of a source are in: of those that were dealt to one
// lane of so many, all up to seq, and the ones named by done. It is written in
// the transaction that makes it true, and stays true, however rows are dealt
// later.
type fact struct {
	width, lane int
	seq         int64
	done        []int64 // beyond seq, rising
}

// known is what a source's earlier writers left.
type known struct {
	high  int64          // no row behind it is in
	lanes map[int][]fact // by width
}

// has says that a row is in.
func (k *known) has(hash uint64, seq int64) bool {
	if seq > k.high {
		return false
	}
	for width, lanes := range k.lanes {
		f := &lanes[hash%uint64(width)]
		if _, in := slices.BinarySearch(f.done, seq); in || seq <= f.seq {
			return true
		}
	}
	return false
}

func (k *known) add(f fact) {
	if k.lanes == nil {
		k.lanes = map[int][]fact{}
	}
	if k.lanes[f.width] == nil {
		k.lanes[f.width] = make([]fact, f.width)
	}
	k.lanes[f.width][f.lane] = f
	k.high = max(k.high, f.seq)
	if n := len(f.done); n > 0 {
		k.high = max(k.high, f.done[n-1])
	}
}

// hashKey deals rows to lanes. Sources that were begun rely on it: it must
// never change. (FNV-1a, and the finish of MurmurHash3, without which the low
// bits of keys that are alike are alike.)
func hashKey(key []byte) uint64 {
	h := uint64(14695981039346656037)
	for _, b := range key {
		h = (h ^ uint64(b)) * 1099511628211
	}
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// mark notes that a batch's rows are settled: in, or refused; or that they are not.
func (b *batch) mark(rows []outRow, settled bool) {
	if len(b.settled) < len(b.items) {
		b.settled = make([]bool, len(b.items))
	}
	for _, r := range rows {
		for _, o := range b.order[r.lo:r.hi] {
			b.settled[o.i] = settled
		}
	}
}

// fact is what is so of a batch's lane once all that is marked is in. All rows
// of that lane before the batch are in when it is written.
func (b *batch) fact(lane int, before *known) fact {
	f := fact{width: b.width, lane: lane, seq: b.items[0].seq - 1}
	n := 0
	for n < len(b.items) && b.settled[n] {
		f.seq = b.items[n].seq
		n++
	}
	for ; n < len(b.items); n++ {
		if b.settled[n] {
			f.done = append(f.done, b.items[n].seq)
		}
	}
	if lanes := before.lanes[b.width]; lanes != nil {
		for _, s := range lanes[lane].done {
			if s > f.seq {
				f.done = append(f.done, s)
			}
		}
		slices.Sort(f.done)
	}
	return f
}

// note is the statement that writes a fact down and returns the transaction's
// number, or nothing if the source is another writer's now.
func (f fact) note(source, writer string, batch int64) string {
	var done []byte
	for i, s := range f.done {
		if i > 0 {
			done = append(done, ',')
		}
		done = strconv.AppendInt(done, s, 10)
	}
	return fmt.Sprintf(strings.TrimSpace(sourceNoteSQL), f.seq, done, batch, host.Literal(source), f.width, f.lane, host.Literal(writer))
}

// makeSource makes the table of facts, and forgets sources of long ago.
func makeSource(ctx context.Context, conn *pgx.Conn) error {
	if err := makeTable(ctx, conn, sourceTable, sourceSQL); err != nil {
		return err
	}
	if err := ours(ctx, conn, "DELETE FROM "+sourceTable+" WHERE at < pg_catalog.now() - interval '1 year'"); err != nil {
		return fmt.Errorf("write %s: %w", sourceTable, err)
	}
	return nil
}

// claim makes a writer the only one of its source, and returns what earlier
// ones brought in. A batch that one of them is still writing ends first: its
// note holds a row that is written here.
func (s *side) claim(ctx context.Context, writer string, widths []int) (*known, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	slow := time.AfterFunc(2*time.Second, func() {
		s.opt.say("waiting for the end of a batch that an earlier run of this source is writing")
	})
	defer slow.Stop()
	var facts []fact
	there := false
	err := s.persist(ctx, func(conn *pgx.Conn) error {
		return s.set(ctx, conn, func(tx pgx.Tx) (err error) {
			facts, there, err = s.opt.claim(ctx, tx, writer, widths)
			return err
		})
	})
	k := &known{}
	for _, f := range facts {
		if f.width < 1 || f.lane < 0 || f.lane >= f.width {
			err = fmt.Errorf("the table is damaged: lane %d of %d", f.lane, f.width)
			break
		}
		k.add(f)
	}
	if err == nil && !there && s.opt.Resumed {
		err = fail.Hint(errors.New("this database knows nothing of it, so it cannot tell which rows are in"), "connect to the database that the run was begun with, or begin anew")
	}
	if err != nil {
		return nil, fmt.Errorf("claim source %s in %s: %w", s.opt.Source, sourceTable, err)
	}
	return k, nil
}

func (o *Options) claim(ctx context.Context, tx pgx.Tx, writer string, widths []int) (facts []fact, there bool, err error) {
	commit := "local"
	if o.Durability == Replicated && o.Resumed { // what is passed over is acknowledged
		commit = "remote_apply"
	}
	for _, q := range []struct {
		sql  string
		args []any
	}{
		{"SET LOCAL synchronous_commit = " + commit, nil},
		{"SELECT pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended($1, 0))", []any{o.Source}},
		{"UPDATE " + sourceTable + " SET writer = $2, at = pg_catalog.now() WHERE source = $1", []any{o.Source, writer}},
		{sourceLanesSQL, []any{o.Source, writer, widths}},
	} {
		tag, err := tx.Exec(ctx, q.sql, q.args...)
		if err != nil {
			return nil, false, err
		}
		there = there || tag.Update() && tag.RowsAffected() > 0
	}
	rows, err := tx.Query(ctx, "SELECT width, lane, seq, done FROM "+sourceTable+" WHERE source = $1", o.Source)
	if err != nil {
		return nil, false, err
	}
	facts, err = pgx.CollectRows(rows, func(r pgx.CollectableRow) (f fact, err error) {
		return f, r.Scan(&f.width, &f.lane, &f.seq, &f.done)
	})
	return facts, there, err
}

// Forget removes what the server keeps of Options.Source. It is for a caller
// that has it on disk that every row is acknowledged.
func (w *Writer) Forget(ctx context.Context) error {
	w.side.mu.Lock()
	defer w.side.mu.Unlock()
	err := w.side.persist(ctx, func(conn *pgx.Conn) error {
		return ours(ctx, conn, "DELETE FROM "+sourceTable+" WHERE source = "+host.Literal(w.opt.Source)+" AND writer = "+host.Literal(w.writer))
	})
	if err != nil {
		return fmt.Errorf("forget source %s: %w", w.opt.Source, err)
	}
	return nil
}

// errTaken ends a writer whose source another one has claimed.
var errTaken = fail.Hint(errors.New("another run of the same source has taken over; this batch was not written"), "let only one run go on from a checkpoint")
