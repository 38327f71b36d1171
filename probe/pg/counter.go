package pg

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"headroom/fact"
	"headroom/host"
)

// Counters is a reading of the server's cumulative counts, over all
// databases. It is not a fact: two readings tell what happened between them.
// PostgreSQL passes a session's counts on when the session pauses, or once a
// second, so short spans are blurred by that much; WALBytes is exact.
type Counters struct {
	At          time.Time
	Commits     int64
	Rollbacks   int64
	Inserted    int64 // rows
	Updated     int64
	Deleted     int64
	Returned    int64 // rows that scans read
	Fetched     int64 // rows that index scans fetched
	BlocksRead  int64 // pages not found in shared_buffers
	BlocksHit   int64
	TempBytes   int64
	Timed       int64 // checkpoints begun, by time
	Requested   int64 // checkpoints begun, by request
	CheckpointB int64 // pages written by checkpoints
	WALBytes    int64 // position in the write-ahead log, bytes
	WALRecords  fact.Opt[int64]
	WALImages   fact.Opt[int64] // pages logged whole
	Vacuuming   int64           // autovacuum workers at work now
	// Checkpointing says that a checkpoint is running now.
	Checkpointing fact.Opt[bool]
}

// ReadCounters reads them with one statement. It takes about a millisecond.
// It is for servers that are not in recovery.
func ReadCounters(ctx context.Context, r host.Reader) (Counters, error) {
	c := Counters{At: r.Now()}
	var records, images *int64
	var running *bool
	err := look(ctx, r, "read the server's counters", func(ctx context.Context, tx pgx.Tx) error {
		sql, err := statement("counters", Major(tx))
		if err != nil {
			return err
		}
		return tx.QueryRow(ctx, sql).Scan(&c.Commits, &c.Rollbacks, &c.Inserted, &c.Updated, &c.Deleted, &c.Returned, &c.Fetched,
			&c.BlocksRead, &c.BlocksHit, &c.TempBytes, &c.WALBytes, &c.Vacuuming, &running,
			&c.Timed, &c.Requested, &c.CheckpointB, &records, &images)
	})
	c.WALRecords, c.WALImages = opt(records, "counted since PostgreSQL 14"), opt(images, "counted since PostgreSQL 14")
	c.Checkpointing = opt(running, "the checkpointer cannot be seen (open it with: GRANT pg_monitor TO the user)")
	return c, err
}
