package change

import (
	"context"
	_ "embed"
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

//go:embed setting.sql
var settingSQL string

//go:embed setting_file.sql
var settingFileSQL string

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

// held is what the server says about one setting.
type held struct {
	guc
	reset      string // in force for new sessions, in base units
	source     string
	pending    bool
	sourceFile *string
	stored     *string // in postgresql.auto.conf; nil: nothing
	below      *string // last line in the other files; nil: none
	exact      bool    // stored and below are known to the letter
}

func (s Setting) look(ctx context.Context, r host.Reader) (map[string]*held, error) {
	out := map[string]*held{}
	err := r.PG(ctx, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, settingSQL, s.names())
		if err != nil {
			return err
		}
		h := new(held)
		_, err = pgx.ForEachRow(rows, []any{&h.name, &h.known, &h.vartype, &h.unit, &h.context, &h.source,
			&h.low, &h.high, &h.choices, &h.boot, &h.reset, &h.pending, &h.sourceFile}, func() error {
			one := *h
			one.choices = slices.Clone(h.choices)
			out[h.name] = &one
			return nil
		})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", s.Object(), err)
	}
	err = readFiles(ctx, r, s.names(), out)
	if errors.Is(err, fail.ErrDenied) {
		err = guessFiles(out, err)
	}
	if err != nil {
		return nil, fmt.Errorf("read what postgresql.auto.conf holds for %s: %w", s.Object(), err)
	}
	return out, nil
}

// readFiles reads the configuration files' lines through pg_file_settings.
func readFiles(ctx context.Context, r host.Reader, names []string, out map[string]*held) error {
	return r.PG(ctx, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, settingFileSQL, names)
		if err != nil {
			return err
		}
		var name string
		var value *string
		var auto bool
		_, err = pgx.ForEachRow(rows, []any{&name, &value, &auto}, func() error {
			h, v := out[name], value
			if v == nil {
				return nil
			}
			kept := *v
			if auto {
				h.stored = &kept
			} else {
				h.below = &kept
			}
			return nil
		})
		for _, h := range out {
			h.exact = true
		}
		return err
	})
}

// guessFiles tells what can be told without the right to read the files: a
// value that is in force and comes from postgresql.auto.conf stands there.
func guessFiles(out map[string]*held, denied error) error {
	for _, h := range out {
		switch {
		case h.source == "configuration file" && h.sourceFile == nil, h.pending:
			return fail.Hint(denied, "GRANT pg_read_all_settings TO the user, or connect as a superuser")
		case h.source == "configuration file" && strings.HasSuffix(*h.sourceFile, "/postgresql.auto.conf"):
			v := h.shown(h.reset)
			h.stored = &v
		}
	}
	return nil
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

// effective is the value in force for new sessions. Where the server works a
// value out by itself (-1), that is what it is.
func (h *held) effective() string {
	if h.source == "override" && h.boot == "-1" {
		return "-1"
	}
	return h.shown(h.reset)
}

// above names what wins over postgresql.auto.conf, or "".
func (h *held) above() string {
	switch h.source {
	case "command line":
		return "set by the command line: ALTER SYSTEM cannot win"
	case "database", "user", "database user", "global":
		return "set for this " + strings.Replace(h.source, "database user", "role in this database", 1) + " by ALTER DATABASE or ALTER ROLE: ALTER SYSTEM cannot win here"
	case "client":
		return "set by our own connection (PGOPTIONS, ALTER SYSTEM cannot win there)"
	}
	return ""
}

// Want implements Step.
func (s Setting) Want(ctx context.Context, r host.Reader, before State) (State, error) {
	if err := s.valid(); err != nil {
		return State{}, err
	}
	hs, err := s.look(ctx, r)
	if err != nil {
		return State{}, err
	}
	want := State{Present: true, Stored: map[string]string{}, Effective: map[string]string{}}
	so := true
	var notes []string
	for _, n := range s.names() {
		aim, err := s.aim(hs[n])
		if err != nil {
			return State{}, err
		}
		so = so && aim.so
		if aim.stored != nil {
			want.Stored[n] = listForm(n, *aim.stored)
		}
		if aim.known {
			want.Effective[n] = aim.value
		}
		if aim.note != "" {
			notes = append(notes, n+": "+aim.note)
		}
	}
	if so {
		return before, nil
	}
	want.Note = strings.Join(notes, "; ")
	return want, nil
}

// valid checks what needs no server.
func (s Setting) valid() error {
	if len(s.names()) == 0 {
		return errors.New("plan setting: none named")
	}
	for _, n := range s.names() {
		if !settingName.MatchString(n) {
			return fail.With(fmt.Errorf("plan setting %q: not a setting's name", n), fail.Usage)
		}
		v, set := s.Values[n]
		if set && slices.Contains(s.Reset, n) {
			return fmt.Errorf("plan setting %s: both set and reset", n)
		}
		if strings.ContainsAny(v, "\x00\n\r") {
			return fail.With(fmt.Errorf("plan setting %s: a line break cannot be stored", n), fail.Usage)
		}
		if set && quotedLists[n] {
			if err := validList(n, v); err != nil {
				return fail.With(err, fail.Usage)
			}
		}
	}
	return nil
}

// aim is where one setting shall go.
type aim struct {
	stored *string
	value  string // effective, in the server's form
	known  bool   // value can be told beforehand and seen afterwards
	so     bool   // nothing is left to do
	note   string
}

func (s Setting) aim(h *held) (aim, error) {
	if !h.known {
		return aim{}, fail.With(fmt.Errorf("plan setting %s: unrecognized configuration parameter %q", h.name, h.name), fail.Usage)
	}
	if h.context == "internal" {
		return aim{}, fail.With(fmt.Errorf("plan setting %s: parameter %q cannot be changed", h.name, h.name), fail.Usage)
	}
	if why := h.above(); why != "" {
		return aim{}, fmt.Errorf("plan setting %s: %s", h.name, why)
	}
	v, set := s.Values[h.name]
	if !set {
		return s.aimReset(h), nil
	}
	a := aim{stored: &v}
	var err error
	if a.value, a.known, err = h.normal(v); err != nil {
		return aim{}, fail.With(fmt.Errorf("plan setting %s: %w", h.name, err), fail.Usage)
	}
	same := h.stored != nil && listForm(h.name, *h.stored) == listForm(h.name, v)
	if h.stored != nil && a.known {
		was, known, err := h.normal(*h.stored)
		same = same || err == nil && known && was == a.value
	}
	inForce := a.known && h.effective() == a.value
	switch {
	case h.context == "postmaster" && !s.Restart:
		a.so = same || inForce && h.stored == nil && !h.pending
		a.known, a.note = false, "takes effect at the next restart of the server"
	case strings.HasSuffix(h.context, "backend"):
		a.so = same
		a.known, a.note = false, "takes effect for new connections"
	default:
		a.so = !h.pending && (inForce && (same || h.stored == nil) || same && !a.known)
	}
	return a, nil
}

// aimReset works out what holds once the line in postgresql.auto.conf is gone.
func (s Setting) aimReset(h *held) aim {
	a := aim{so: h.stored == nil}
	if !h.exact || strings.HasSuffix(h.context, "backend") || h.context == "postmaster" && !s.Restart || h.source == "override" {
		return a
	}
	if h.below == nil {
		// The server may choose another default at start than the built-in one.
		return a
	}
	var err error
	if a.value, a.known, err = h.normal(*h.below); err != nil {
		a.known = false
	}
	return a
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
			return fail.Hint(errors.New("reload the server's configuration: the server did not take it"),
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
