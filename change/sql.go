package change

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"headroom/host"
)

// SQL is a statement on the server that a setting cannot express, with its
// undo and a query that tells which of the two holds. Do and Undo must each
// come out right when they are run twice ("if not exists"): an interrupted
// one is run again.
type SQL struct {
	Name  string `json:"name"`  // the object, for people: "index public.t_i"
	Do    string `json:"do"`    // one statement, outside of a transaction
	Back  string `json:"back"`  // one statement that takes Do back
	Check string `json:"check"` // a query that yields one text
	Gives string `json:"gives"` // what Check yields after Do
}

// Kind implements Step.
func (SQL) Kind() string { return "sql" }

// Object implements Step.
func (s SQL) Object() string { return s.Name }

// Effects implements Step.
func (SQL) Effects() []string { return nil }

func (s SQL) String() string { return s.Do }

// Read implements Step.
func (s SQL) Read(ctx context.Context, r host.Reader) (State, error) {
	st := State{Present: true}
	err := r.PG(ctx, func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, s.Check).Scan(&st.Value)
	})
	if err != nil {
		return State{}, fmt.Errorf("check %s: %w", s.Name, err)
	}
	return st, nil
}

// Want implements Step.
func (s SQL) Want(context.Context, host.Reader, State) (State, error) {
	return State{Present: true, Value: s.Gives}, nil
}

// Undo implements Step.
func (s SQL) Undo(before State) Step {
	return SQL{Name: s.Name, Do: s.Back, Back: s.Do, Check: s.Check, Gives: before.Value}
}

// Apply implements Step.
func (s SQL) Apply(ctx context.Context, w host.Writer) error { return w.PGExec(ctx, s.Do) }
