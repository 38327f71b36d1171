package change

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"headroom/crash"
	"headroom/fail"
	"headroom/host"
)

// How the guard is talked to. Its first extra descriptor is a pipe that ends
// when the applying process does; into the second it writes one line when it
// stands by, or why it cannot.
const (
	guardAliveFD = 3
	guardArmedFD = 4
	guardArmed   = "armed"
	guardStart   = 20 * time.Second // how long it may take to stand by
	guardPoll    = 100 * time.Millisecond
	guardApply   = 15 * time.Minute // an apply that takes longer than this and the confirmation hangs
	guardTry     = 2 * time.Minute  // how long the guard tries to reach what it must take back
)

// guards are the parent's ends of the guarding processes; none if none was
// asked for.
type guards []*os.File

// release lets the guards know that this process has no more to say.
func (g guards) release() {
	for _, alive := range g {
		_ = alive.Close()
	}
}

// arm starts the process that takes the change back unless it is confirmed,
// and returns when it stands by: before the first step. Of a change that may
// cut off there are two, so that one can die; whoever comes second finds all
// done.
func (r *run) arm(ctx context.Context) (guards, error) {
	if r.o.ConfirmWithin <= 0 {
		return nil, nil
	}
	c, err := r.guardCmd()
	if err != nil {
		return nil, fmt.Errorf("start the guard: %w", err)
	}
	if r.ownUnit() {
		if err := r.armUnit(ctx, c); err == nil || ctx.Err() != nil {
			return nil, err
		} else {
			r.o.say("the guard could not be made a service of systemd, so it is a process of its own: %v", err)
		}
	}
	n := 1
	if r.plan.CutsOff() {
		n = 2
	}
	var out guards
	for range n {
		alive, err := r.armChild(ctx, c)
		if err != nil {
			out.release()
			return nil, err
		}
		out = append(out, alive)
	}
	return out, nil
}

// armChild starts a guard that is a detached child.
func (r *run) armChild(ctx context.Context, c host.Cmd) (alive *os.File, err error) {
	aliveR, aliveW, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start the guard: %w", err)
	}
	armedR, armedW, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start the guard: %w", err), aliveR.Close(), aliveW.Close())
	}
	defer armedR.Close()
	pid, err := r.startGuard(c, aliveR, armedW)
	_, _ = aliveR.Close(), armedW.Close()
	if err == nil {
		err = awaitArmed(ctx, armedR)
	}
	if err == nil {
		err = r.log.add(Record{Type: recArmed, Note: fmt.Sprintf("process %d", pid)})
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start the guard: %w", err), aliveW.Close())
	}
	crash.At("change.guard-armed")
	return aliveW, nil
}

func (r *run) guardCmd() (host.Cmd, error) {
	if r.o.Guard != nil {
		return *r.o.Guard, nil
	}
	self, err := os.Executable()
	return host.Cmd{Argv: []string{self, "guard"}, Env: os.Environ()}, err
}

func (r *run) startGuard(c host.Cmd, extra ...*os.File) (pid int, err error) {
	c.Argv = append(append([]string{}, c.Argv...), r.log.id)
	c.Detach, c.Extra = true, extra
	x, err := c.Start()
	if err != nil {
		return 0, err
	}
	go func() { _ = x.Wait() }() // so that it leaves no zombie; as a rule it outlives us
	return x.Process.Pid, nil
}

func awaitArmed(ctx context.Context, f *os.File) error {
	if err := f.SetReadDeadline(time.Now().Add(guardStart)); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = f.SetReadDeadline(time.Now()) })
	defer stop()
	line, err := bufio.NewReader(io.LimitReader(f, 4096)).ReadString('\n')
	line = strings.TrimSpace(line)
	switch {
	case line == guardArmed:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case line != "":
		return errors.New(line)
	}
	return fmt.Errorf("it did not stand by: %w", err)
}

// Guard is the body of the process that Apply starts for ConfirmWithin. It
// returns when the change is settled: confirmed, taken back by somebody, or
// taken back by itself because the time is over, the applying process died
// before it was done, or ctx ended.
func Guard(ctx context.Context, w host.Writer, id string, o Options) error {
	signal.Ignore(syscall.SIGHUP, syscall.SIGPIPE)
	lead, err := leaderOf(o.Parent)
	if err != nil {
		return err
	}
	e, err := o.Journal.Get(id)
	if err == nil && e.Plan == nil {
		err = fmt.Errorf("guard %s: its journal cannot be read", id)
	}
	if err == nil {
		err = e.Plan.here(ctx, w)
	}
	if err != nil {
		return errors.Join(err, lead.ready(err))
	}
	if c, ok := w.(interface{ Close() }); ok {
		c.Close() // an idle connection would not survive a restart of the server
	}
	crash.At("change.guard-ready")
	if err := lead.ready(nil); err != nil {
		return fmt.Errorf("guard %s: %w", id, err)
	}
	why := watch(ctx, o.Journal, e, lead)
	if why == "" {
		return nil
	}
	crash.At("change.guard-expired")
	return guardBack(w, id, o, why)
}

// leaderOf finds the process that applies the change: by its name, or at the
// other end of the pipes that it handed down.
func leaderOf(parent string) (*leader, error) {
	if parent != "" {
		return leaderByID(parent)
	}
	alive, armed := os.NewFile(guardAliveFD, "alive"), os.NewFile(guardArmedFD, "armed")
	if st, err := alive.Stat(); err != nil || st.Mode()&os.ModeNamedPipe == 0 {
		return nil, fail.With(errors.New("guard: it is started by `headroom apply --confirm-within`, not by hand"), fail.Usage)
	}
	pid := os.Getppid()
	l := &leader{pid: pid, gone: make(chan struct{}), is: func() bool { return os.Getppid() == pid }}
	l.ready = func(why error) error {
		line := guardArmed
		if why != nil {
			line = strings.ReplaceAll(why.Error(), "\n", " ")
		}
		_, err := fmt.Fprintln(armed, line)
		return errors.Join(err, armed.Close())
	}
	go func() { _, _ = io.Copy(io.Discard, alive); close(l.gone) }()
	return l, nil
}

// watch returns when the change is settled, with "", or must be taken back,
// with the reason.
func watch(ctx context.Context, j *Journal, e Entry, lead *leader) string {
	gone := lead.gone
	tick := time.NewTicker(guardPoll)
	defer tick.Stop()
	hung := time.After(e.Confirm + guardApply)
	var over <-chan time.Time // runs by the monotonic clock, whatever happens to the other
	died := false
	seen, read := arrivals{j: j}, reader{j: j, id: e.ID}
	for {
		select {
		case <-ctx.Done():
			return "the guard was ended"
		case <-over:
			return "it was not confirmed in time"
		case <-hung:
			if lead.is() {
				_ = syscall.Kill(lead.pid, syscall.SIGKILL)
			}
			return "applying it took too long"
		case <-gone:
			died, gone = true, nil
		case <-tick.C:
		}
		now, err := read.entry()
		if err != nil {
			continue
		}
		if now.confirmed() {
			return "" // whatever came after is somebody else's to end
		}
		switch now.Phase {
		case Begun, Applying, Reverting:
			if died && now.ConfirmBy.IsZero() {
				return "the process that applied it died"
			}
			if busy, err := j.held(); died && err == nil && !busy {
				return "the process that confirmed it died"
			}
		case Awaiting:
			if over == nil {
				over = time.After(min(time.Until(now.ConfirmBy), e.Confirm))
			}
			seen.look(now)
		default:
			return ""
		}
	}
}

// guardBack takes the change back, trying for a while.
func guardBack(w host.Writer, id string, o Options, why string) error {
	ctx, stop := context.WithTimeout(context.Background(), guardTry)
	defer stop()
	l, err := o.Journal.await(ctx, "guard "+id)
	if err != nil {
		return err
	}
	defer l.release()
	for {
		e, err := o.Journal.Get(id)
		if err != nil {
			return err
		}
		if e.Phase == Applied || e.Phase == Reverted || e.Phase == Abandoned {
			return nil // settled by somebody else while we waited for the lock
		}
		if err = reach(ctx, w, e, o); err == nil {
			if _, err = backUnasked(ctx, w, e, o, why); err == nil {
				return nil
			}
		}
		var m *Moved
		if errors.As(err, &m) || ctx.Err() != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, o.Journal.append(id, Record{Type: recFailed, Note: err.Error()}))
		case <-time.After(time.Second):
		}
	}
}

// reader reads one change's file again only when it has grown.
type reader struct {
	j    *Journal
	id   string
	last Entry
}

func (r *reader) entry() (Entry, error) {
	st, err := os.Stat(r.j.file(r.id))
	if err != nil || r.last.ID != "" && st.Size() == r.last.size {
		return r.last, err
	}
	r.last, err = r.j.Get(r.id)
	return r.last, err
}
