package pg

import (
	"context"

	"headroom/fact"
)

// Sessions is who is connected, our own session left out.
type Sessions struct {
	Max        int64             `json:"max" unit:"count" src:"max_connections" doc:"connections that the server takes"`
	Reserved   int64             `json:"reserved" unit:"count" src:"superuser_reserved_connections" doc:"of them, kept for superusers"`
	Used       int64             `json:"used" unit:"count" src:"pg_stat_activity client backends" doc:"connections of clients now"`
	Active     fact.Opt[int64]   `json:"active" unit:"count" src:"pg_stat_activity state" doc:"of them, running a statement"`
	Idle       fact.Opt[int64]   `json:"idle" unit:"count" src:"pg_stat_activity state" doc:"of them, waiting for their client outside of a transaction"`
	InTx       fact.Opt[int64]   `json:"idle_in_transaction" unit:"count" src:"pg_stat_activity state" doc:"of them, waiting for their client inside a transaction"`
	Waiting    fact.Opt[int64]   `json:"waiting" unit:"count" src:"pg_stat_activity wait_event_type Lock" doc:"of them, waiting for a lock"`
	OldestTx   fact.Opt[float64] `json:"oldest_transaction" unit:"seconds" src:"pg_stat_activity xact_start" doc:"age of the oldest open transaction; 0 if none is open"`
	OldestIdle fact.Opt[float64] `json:"oldest_idle_in_transaction" unit:"seconds" src:"pg_stat_activity state_change" doc:"how long a session has been idle inside a transaction, at most; 0 if none is"`
	Horizon    fact.Opt[int64]   `json:"horizon" unit:"count" src:"pg_stat_activity backend_xmin" doc:"transactions since the oldest one that a session may still look back to: vacuum cannot remove what died since"`
	Prepared   int64             `json:"prepared" unit:"count" src:"pg_prepared_xacts" doc:"transactions prepared for two-phase commit"`
	OldestPrep float64           `json:"oldest_prepared" unit:"seconds" src:"pg_prepared_xacts" doc:"age of the oldest of them"`
}

// Activity is the fact "pg.sessions".
var Activity = &fact.Source[Sessions]{
	Name: "pg.sessions", Doc: "connections by state, against what the server takes, and the oldest transaction",
	Read: readSessions,
}

func readSessions(ctx context.Context, in *fact.In) (Sessions, error) {
	s, err := From(ctx, in)
	if err != nil {
		return Sessions{}, err
	}
	var out Sessions
	var active, idle, inTx, waiting, horizon, hidden int64
	var oldest, oldestIdle float64
	err = one(ctx, in, "read the sessions", "sessions", &out.Max, &out.Reserved, &out.Used, &active, &idle, &inTx, &waiting,
		&oldest, &oldestIdle, &horizon, &hidden, &out.Prepared, &out.OldestPrep)
	if err != nil {
		return Sessions{}, err
	}
	why := ""
	if hidden > 0 && !s.Monitor {
		why = "other roles' sessions cannot be seen (open it with: GRANT pg_monitor TO " + Quote(s.User) + ")"
	}
	out.Active, out.Idle, out.InTx, out.Waiting = seen(active, why), seen(idle, why), seen(inTx, why), seen(waiting, why)
	out.OldestTx, out.OldestIdle, out.Horizon = seen(oldest, why), seen(oldestIdle, why), seen(horizon, why)
	return out, nil
}

func seen[T any](v T, why string) fact.Opt[T] {
	if why != "" {
		return fact.Unknown[T](why)
	}
	return fact.Known(v)
}
