package pg

import (
	"context"

	"github.com/jackc/pgx/v5"

	"headroom/fact"
)

// Replica is how the server is copied.
type Replica struct {
	Standbys []Standby `json:"standbys" doc:"who streams from this server now"`
	Slots    []Slot    `json:"slots" doc:"what the server keeps write-ahead log for"`
}

// Standby is one receiver.
type Standby struct {
	Name  string           `json:"name" src:"pg_stat_replication application_name" doc:"name it gives itself"`
	State fact.Opt[string] `json:"state" src:"pg_stat_replication state" doc:"streaming, catchup, backup"`
	Sync  fact.Opt[string] `json:"sync" src:"pg_stat_replication sync_state" doc:"async, sync, quorum, potential"`
	Lag   fact.Opt[int64]  `json:"lag" unit:"bytes" src:"pg_current_wal_lsn() - replay_lsn" doc:"write-ahead log that it has not replayed yet"`
}

// Slot is one replication slot.
type Slot struct {
	Name     string          `json:"name" src:"pg_replication_slots" doc:"its name"`
	Kind     string          `json:"kind" src:"pg_replication_slots slot_type" doc:"physical or logical"`
	Active   bool            `json:"active" src:"pg_replication_slots active" doc:"somebody reads from it now"`
	Retained fact.Opt[int64] `json:"retained" unit:"bytes" src:"pg_current_wal_lsn() - restart_lsn" doc:"write-ahead log kept for it"`
}

// Replication is the fact "pg.replication".
var Replication = &fact.Source[Replica]{
	Name: "pg.replication", Doc: "standbys and replication slots",
	Read: func(ctx context.Context, in *fact.In) (Replica, error) {
		out := Replica{Standbys: []Standby{}, Slots: []Slot{}}
		err := look(ctx, in, "read the standbys and slots", func(ctx context.Context, tx pgx.Tx) error {
			if err := readStandbys(ctx, tx, &out); err != nil {
				return err
			}
			return readSlots(ctx, tx, &out)
		})
		return out, err
	},
}

func readStandbys(ctx context.Context, tx pgx.Tx, out *Replica) error {
	sql, err := statement("standbys", 0)
	if err != nil {
		return err
	}
	rows, err := tx.Query(ctx, sql)
	if err != nil {
		return err
	}
	const why = "not visible to this role, or the standby is just connecting"
	var s Standby
	var state, sync *string
	var lag *int64
	_, err = pgx.ForEachRow(rows, []any{&s.Name, &state, &sync, &lag}, func() error {
		s.State, s.Sync, s.Lag = opt(state, why), opt(sync, why), opt(lag, why)
		out.Standbys = append(out.Standbys, s)
		return nil
	})
	return err
}

func readSlots(ctx context.Context, tx pgx.Tx, out *Replica) error {
	sql, err := statement("slots", 0)
	if err != nil {
		return err
	}
	rows, err := tx.Query(ctx, sql)
	if err != nil {
		return err
	}
	var s Slot
	var retained *int64
	_, err = pgx.ForEachRow(rows, []any{&s.Name, &s.Kind, &s.Active, &retained}, func() error {
		s.Retained = opt(retained, "the slot holds no position yet")
		out.Slots = append(out.Slots, s)
		return nil
	})
	return err
}
