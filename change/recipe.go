package change

import (
	"context"

	"headroom/fact"
	"headroom/host"
)

// Arg documents one argument of a recipe.
type Arg struct {
	Name string // "" means: any name is taken, see Doc (postgres.setting)
	Doc  string
	Eg   string // an example value
}

// Recipe makes a Change out of facts and what the user asked for. It is pure:
// it reads nothing but the facts it needs.
type Recipe struct {
	ID     string // "disk.queue"; stable
	Doc    string // what it changes, how long that lasts, how it is undone
	Object string // what OBJECT is, e.g. "DEVICE"; "" if it takes none
	Args   []Arg
	Needs  []fact.Any
	// Plan returns the change. A wrong argument is an error with exit status
	// fail.Usage that names it and what is allowed. A change that is already
	// so is still returned; the engine sees that nothing is left to do.
	Plan func(s *fact.Set, spec Spec) (Change, error)
	// Work takes Plan's place where a change must be tried in a place of its
	// own before it can be offered, or is made of a file that the user names.
	// It alters nothing on the machine.
	Work func(ctx context.Context, r host.Reader, s *fact.Set, spec Spec) (Change, error)
}
