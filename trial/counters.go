package trial

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"headroom/host"
)

// counters is what a trial wants to know of a server around each round.
type counters struct {
	wal           int64 // bytes written since initdb; replayed on a standby
	checkpoints   int64 // begun since the statistics were reset
	checkpointing bool
	vacuums       int64 // autovacuum workers at work now
}

const walSQL = `select coalesce(case when pg_is_in_recovery() then pg_last_wal_replay_lsn() else pg_current_wal_insert_lsn() end - '0/0', 0)::bigint,
	(select count(*) from pg_stat_activity where backend_type = 'autovacuum worker'), current_setting('server_version_num')::int`

func readCounters(ctx context.Context, r host.Reader) (counters, error) {
	var c counters
	var version int
	err := r.PG(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if err := tx.QueryRow(ctx, walSQL).Scan(&c.wal, &c.vacuums, &version); err != nil {
			return err
		}
		sql := `select checkpoints_timed + checkpoints_req from pg_stat_bgwriter`
		if version >= 170000 {
			sql = `select num_timed + num_requested from pg_stat_checkpointer`
		}
		return tx.QueryRow(ctx, sql).Scan(&c.checkpoints)
	})
	if err != nil {
		return counters{}, fmt.Errorf("read the server's counters: %w", err)
	}
	return c, nil
}
