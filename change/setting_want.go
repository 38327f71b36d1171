package change

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"headroom/fail"
	"headroom/host"
)

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
		if err := s.ask(ctx, r, hs[n]); err != nil {
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

// fixed are the settings that the server lists as if they could be changed,
// and that ALTER SYSTEM refuses.
var fixed = []string{"config_file", "data_directory", "transaction_deferrable", "transaction_isolation", "transaction_read_only"}

// ask has the server judge texts, whose rules only it knows, by setting them
// for the length of a read-only transaction. It can for those that a session
// may set; the others it judges when they are stored.
func (s Setting) ask(ctx context.Context, r host.Reader, h *held) error {
	v, set := s.Values[h.name]
	if !set || h.vartype != "string" || h.context != "user" && h.context != "superuser" || h.name == "client_encoding" {
		return nil
	}
	err := r.PG(ctx, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "select pg_catalog.set_config($1, $2, true)", h.name, v)
		return err
	})
	var pe *pgconn.PgError
	if errors.As(err, &pe) && strings.HasPrefix(pe.Code, "22") {
		return fail.With(fmt.Errorf("plan setting %s: %s", h.name, strings.TrimSuffix(pe.Message+" ("+pe.Detail+")", " ()")), fail.Usage)
	}
	return nil
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
	if h.context == "internal" || slices.Contains(fixed, h.name) {
		return aim{}, fail.With(fmt.Errorf("plan setting %s: parameter %q cannot be changed", h.name, h.name), fail.Usage)
	}
	if h.broken != "" {
		return aim{}, fail.Hint(fmt.Errorf("plan setting %s: %s", h.name, h.broken), "set that right first: until then the server takes no setting")
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
