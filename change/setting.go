package change

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"headroom/crash"
	"headroom/fail"
	"headroom/host"
)

// Setting is what postgresql.auto.conf holds for one or more server settings:
// ALTER SYSTEM SET for Values, ALTER SYSTEM RESET for Reset, then one reload
// or restart for all. It is undone to the exact text that stood there before,
// or to nothing.
//
// A setting that takes effect only at server start stays pending unless
// Restart is set.
type Setting struct {
	Values  map[string]string `json:"values,omitempty"`
	Reset   []string          `json:"reset,omitempty"`
	Restart bool              `json:"restart,omitempty"`
}

// reloadLimit is how long a reload may take to reach our session.
const reloadLimit = 10 * time.Second

var settingName = regexp.MustCompile(`^[a-z_][a-z0-9_.]*$`)

// Kind implements Step.
func (Setting) Kind() string { return "setting" }

// names lists all settings of the step in order.
func (s Setting) names() []string {
	out := append(sortedKeys(s.Values), s.Reset...)
	slices.Sort(out)
	return slices.Compact(out)
}

// Object implements Step.
func (s Setting) Object() string {
	if len(s.names()) == 1 {
		return "setting " + s.names()[0]
	}
	return "settings " + strings.Join(s.names(), ", ")
}

// Effects implements Step.
func (s Setting) Effects() []string {
	if s.Restart {
		return []string{"restarts the server: every connection is cut"}
	}
	return []string{"reloads the server's configuration"}
}

func (s Setting) String() string {
	end := "reload"
	if s.Restart {
		end = "restart"
	}
	return strings.Join(append(s.statements(), end), "; ")
}

// statements are what reaches the stored state.
func (s Setting) statements() []string {
	var out []string
	for _, n := range s.names() {
		if v, ok := s.Values[n]; ok {
			out = append(out, fmt.Sprintf("ALTER SYSTEM SET %s = %s", n, literals(n, v)))
		} else {
			out = append(out, "ALTER SYSTEM RESET "+n)
		}
	}
	return out
}

// Read implements Step.
func (s Setting) Read(ctx context.Context, r host.Reader) (State, error) {
	hs, err := s.look(ctx, r)
	if err != nil {
		return State{}, err
	}
	st := State{Present: true, Stored: map[string]string{}, Effective: map[string]string{}}
	var notes []string
	for _, n := range s.names() {
		h := hs[n]
		st.guessed = st.guessed || !h.exact
		if h.stored != nil {
			st.Stored[n] = listForm(n, *h.stored)
		}
		// Settings of a connection's start are seen by new connections only.
		if h.known && !strings.HasSuffix(h.context, "backend") {
			st.Effective[n] = h.effective()
		}
		if h.pending {
			notes = append(notes, n+": restart pending")
		}
		if why := h.above(); why != "" {
			notes = append(notes, n+": "+why)
		}
	}
	st.Note = strings.Join(notes, "; ")
	return st, nil
}

// Undo implements Step.
func (s Setting) Undo(before State) Step {
	back := Setting{Restart: s.Restart}
	for _, n := range s.names() {
		if v, ok := before.Stored[n]; ok {
			if back.Values == nil {
				back.Values = map[string]string{}
			}
			back.Values[n] = v
		} else {
			back.Reset = append(back.Reset, n)
		}
	}
	return back
}

// Apply implements Step.
func (s Setting) Apply(ctx context.Context, w host.Writer) error {
	if err := s.valid(); err != nil {
		return err
	}
	for _, stmt := range s.statements() {
		if err := w.PGExec(ctx, stmt); err != nil {
			return fmt.Errorf("%s: %w", stmt, err)
		}
		crash.At("change.setting-one-stored")
	}
	crash.At("change.setting-stored")
	if err := reload(ctx, w); err != nil || !s.Restart {
		return err
	}
	crash.At("change.setting-reloaded")
	hs, err := s.look(ctx, w)
	if err != nil {
		return err
	}
	for _, h := range hs {
		if h.pending {
			return w.PGRestart(ctx)
		}
	}
	return nil // nothing waits for a restart: spare the connections
}

var errNotTaken = errors.New("the server did not take it")

// drop does what Apply does where it cannot be seen whether anything is left
// to do. What we have no right to, we cannot have done before; what the server
// does not load now, it has not loaded before.
func (s Setting) drop(ctx context.Context, w host.Writer) error {
	for _, stmt := range s.statements() {
		if err := w.PGExec(ctx, stmt); err != nil && !errors.Is(err, fail.ErrDenied) {
			return fmt.Errorf("%s: %w", stmt, err)
		}
	}
	if err := reload(ctx, w); !errors.Is(err, fail.ErrDenied) && !errors.Is(err, errNotTaken) {
		return err
	}
	return nil
}

// reload has the server read its configuration again and waits until our own
// session has done so, too.
func reload(ctx context.Context, w host.Writer) error {
	before, err := loaded(ctx, w)
	if err != nil {
		return err
	}
	if err := w.PGExec(ctx, "select pg_catalog.pg_reload_conf()"); err != nil {
		return fmt.Errorf("reload the server's configuration: %w", err)
	}
	for end := time.Now().Add(reloadLimit); ; {
		now, err := loaded(ctx, w)
		if err != nil {
			return err
		}
		if now.After(before) {
			return nil
		}
		if time.Now().After(end) {
			return fail.Hint(fmt.Errorf("reload the server's configuration: %w", errNotTaken),
				"one of its files may hold an error: SELECT * FROM pg_file_settings WHERE error IS NOT NULL")
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func loaded(ctx context.Context, r host.Reader) (at time.Time, err error) {
	err = r.PG(ctx, func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, "select pg_catalog.pg_conf_load_time()").Scan(&at)
	})
	if err != nil {
		return at, fmt.Errorf("ask when the configuration was loaded: %w", err)
	}
	return at, nil
}
