package change

import (
	"context"
	"strings"

	"headroom/host"
)

// Command is a program run for its effect, for what is neither file nor
// value, with its undo and a read-only program that tells which of the two
// holds. Each is an argv without a shell; Check must be on the list
// host.Looks. Do and Back must come out right when they are run twice.
type Command struct {
	Name  string   `json:"name"` // the object, for people
	Do    []string `json:"do"`
	Back  []string `json:"back"`  // takes Do back
	Check []string `json:"check"` // prints the present state
	Gives string   `json:"gives"` // what Check prints after Do, blanks trimmed
}

// Kind implements Step.
func (Command) Kind() string { return "command" }

// Object implements Step.
func (c Command) Object() string { return c.Name }

// Effects implements Step.
func (Command) Effects() []string { return nil }

func (c Command) String() string { return "run " + strings.Join(c.Do, " ") }

// Read implements Step.
func (c Command) Read(ctx context.Context, r host.Reader) (State, error) {
	out, err := r.Look(ctx, c.Check...)
	if err != nil {
		return State{}, err
	}
	s := State{Present: true}
	s.Value, s.Binary = text([]byte(strings.TrimSpace(string(out))))
	return s, nil
}

// Want implements Step.
func (c Command) Want(context.Context, host.Reader, State) (State, error) {
	return State{Present: true, Value: c.Gives}, nil
}

// Undo implements Step.
func (c Command) Undo(before State) Step {
	return Command{Name: c.Name, Do: c.Back, Back: c.Do, Check: c.Check, Gives: before.Value}
}

// Apply implements Step.
func (c Command) Apply(ctx context.Context, w host.Writer) error {
	_, err := w.Run(ctx, c.Do...)
	return err
}
