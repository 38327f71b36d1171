package trial

import (
	"context"
	"encoding/json"
)

// stage is where the arms of an experiment live, numbered as in it. A private
// stage has a stand for each arm; on a shared one they take turns.
type stage interface {
	// where describes the stage in a few words.
	where() string
	// shared says whether the arms take turns on one stand.
	shared() bool
	// equal says whether no arm's changes are in force yet, or none has any.
	equal() bool
	// change puts the changes of all arms into force, for good on private
	// stands; on a shared one it only checks that this can be done. It returns
	// each arm's plans as applied.
	change(ctx context.Context, say func(string)) ([]json.RawMessage, error)
	// turn makes the stand ready for a round of the arm: on a shared one it
	// applies or takes back what differs. fresh says that the stand is not
	// warm any more.
	turn(ctx context.Context, arm int) (fresh bool, err error)
	// session is the arm's open session. It may be another one after turn.
	session(arm int) Session
	// watch notes what else goes on until the returned function is called.
	watch(ctx context.Context, arm int) func(ctx context.Context, r Round) seen
	// facts reads the facts to be stored, as fact.Set.Save writes them, and
	// those that must not move, by name.
	facts(ctx context.Context) (saved json.RawMessage, still map[string]string, err error)
}

// seen is what went on around one round.
type seen struct {
	marks       []Mark
	wal         int64 // bytes written by the stand's server; -1 if not known
	checkpoints int64 // begun or ended meanwhile
}
