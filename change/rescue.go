package change

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"headroom/crash"
	"headroom/fail"
	"headroom/host"
)

// answers says whether the server can be talked to, by a new connection: an
// old one may be broken, and a failure to connect is remembered.
func answers(ctx context.Context, r host.Reader) bool {
	if c, ok := r.(interface{ Close() }); ok {
		c.Close()
	}
	return r.PG(ctx, func(context.Context, pgx.Tx) error { return nil }) == nil
}

// rescue brings back a server that does not answer any more after one of its
// settings was changed, for example because it cannot start with it: the
// former lines are put into postgresql.auto.conf by hand. It returns cause if
// it cannot help.
func (r *run) rescue(ctx context.Context, s PlannedStep, cause error) error {
	undo, ok := s.Undo.(Setting)
	if !ok || r.plan.Server == nil || answers(ctx, r.w) {
		return cause
	}
	srv := *r.plan.Server
	if srv.DataDir == "" {
		return fail.Hint(cause, "the server does not answer: set it right in postgresql.auto.conf (%s), then start it", undo)
	}
	r.o.say("the server at %s does not answer: putting its former settings into postgresql.auto.conf and starting it", srv.Address)
	if err := r.rescueFile(ctx, srv, undo); err != nil {
		return fmt.Errorf("%w; and its settings could not be put back by hand: %w", cause, err)
	}
	crash.At("change.rescue-stored")
	err := r.start(ctx, srv)
	if !answers(ctx, r.w) {
		return fmt.Errorf("%w; its settings were put back, but it does not start: %w", cause, err)
	}
	return nil
}

// rescueFile replaces postgresql.auto.conf in one move, owner and mode kept.
func (r *run) rescueFile(ctx context.Context, srv Server, undo Setting) error {
	control, err := r.w.ReadFile(path.Join(srv.DataDir, "global/pg_control"))
	if err != nil {
		return err
	}
	if len(control) < 8 || strconv.FormatUint(binary.NativeEndian.Uint64(control), 10) != srv.SystemID {
		return fmt.Errorf("folder %s is another server's", srv.DataDir)
	}
	auto := path.Join(srv.DataDir, "postgresql.auto.conf")
	old, err := r.w.ReadFile(auto)
	if err != nil {
		return err
	}
	fresh := auto + ".headroom"
	if err := r.w.WriteFile(fresh, []byte(edited(string(old), undo)), 0o600); err != nil {
		return err
	}
	if _, err := r.w.Run(ctx, "chown", "--reference="+auto, "--", fresh); err != nil {
		return errors.Join(err, r.w.Remove(fresh))
	}
	if _, err := r.w.Run(ctx, "mv", "-T", "--", fresh, auto); err != nil {
		return errors.Join(err, r.w.Remove(fresh))
	}
	return nil
}

// edited is the content of a postgresql.auto.conf with the step's settings as
// ALTER SYSTEM would leave them.
func edited(content string, s Setting) string {
	names := s.names()
	var out strings.Builder
	for line := range strings.Lines(content) {
		name, _, _ := strings.Cut(line, "=")
		if !slices.Contains(names, strings.ToLower(strings.TrimSpace(name))) {
			out.WriteString(strings.TrimSuffix(line, "\n") + "\n")
		}
	}
	for _, n := range names {
		if v, ok := s.Values[n]; ok {
			fmt.Fprintf(&out, "%s = '%s'\n", n, strings.NewReplacer("'", "''", `\`, `\\`).Replace(v))
		}
	}
	return out.String()
}

// start starts the server the way it was started when the plan was made.
func (r *run) start(ctx context.Context, srv Server) error {
	if srv.Unit != "" {
		_, err := r.w.Run(ctx, "systemctl", "restart", "--", srv.Unit)
		return err
	}
	err := r.w.PGRestart(ctx)
	if err == nil || srv.Program == "" {
		return err
	}
	st, serr := r.w.Stat(srv.DataDir)
	if serr != nil {
		return errors.Join(err, serr)
	}
	return host.PGCtl(ctx, host.Running{DataDir: srv.DataDir, Program: srv.Program, Owner: srv.Owner, Log: srv.Log}, st.GID)
}

// reach makes sure that machine and server are those of the change. A server
// that is down because of a setting of this very change does not stop it: the
// way back begins with bringing it up.
func reach(ctx context.Context, w host.Writer, e Entry, o Options) error {
	if id := machineID(w); id != e.Plan.Machine {
		return fmt.Errorf("it was made on machine %q, and this is %q", e.Plan.Machine, id)
	}
	if e.Plan.Server == nil {
		return nil
	}
	if answers(ctx, w) || e.Phase == Applied || e.Phase == Awaiting {
		return e.Plan.here(ctx, w)
	}
	var err error
	r := &run{w: w, o: o, plan: e.Plan}
	for _, s := range e.Plan.Steps() {
		if set, ok := s.Step.(Setting); ok && set.Restart {
			if err = r.rescue(ctx, s, errors.New("the server does not answer")); err == nil {
				break
			}
		}
	}
	if answers(ctx, w) {
		err = nil
	}
	return errors.Join(err, e.Plan.here(ctx, w))
}
