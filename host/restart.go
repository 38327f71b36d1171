package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"headroom/fail"
)

// Running is how a server on this machine was started, as far as its pid file
// and control group tell.
type Running struct {
	DataDir string // data folder
	PID     int    // postmaster
	Program string // path of the postgres binary
	Owner   int    // uid that it runs as
	Unit    string // systemd unit, "" if none
	Log     string // file that its standard error goes to, "" if that is none
}

// PGRunning finds the process behind the server that PG talks to.
// fail.ErrAbsent if it runs on another machine; fail.ErrDenied if we may not see it.
func (l *Local) PGRunning(ctx context.Context) (Running, error) {
	var dir string
	var started time.Time
	err := l.PG(ctx, func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, "select current_setting('data_directory'), pg_postmaster_start_time()").Scan(&dir, &started)
	})
	if err != nil {
		return Running{}, fmt.Errorf("find the server's data folder: %w", err)
	}
	raw, err := l.ReadFile(filepath.Join(dir, "postmaster.pid"))
	if err != nil {
		return Running{}, err
	}
	lines := strings.Split(string(raw), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(lines[0]))
	if err != nil || len(lines) < 3 {
		return Running{}, fmt.Errorf("read %s/postmaster.pid: not a pid file", dir)
	}
	// The third line is the start time: it tells this server from another
	// one that has a folder of the same name on another machine.
	if at, err := strconv.ParseInt(strings.TrimSpace(lines[2]), 10, 64); err != nil || absInt(at-started.Unix()) > 5 {
		return Running{}, fmt.Errorf("match %s/postmaster.pid with the server: another start time: %w", dir, fail.ErrAbsent)
	}
	st, err := l.Stat(fmt.Sprintf("/proc/%d", pid))
	if err != nil {
		return Running{}, err
	}
	exe, err := os.Readlink(l.path(fmt.Sprintf("/proc/%d/exe", pid)))
	if err != nil {
		return Running{}, fmt.Errorf("find the server's program: %w", absent(err))
	}
	return Running{DataDir: dir, PID: pid, Program: exe, Owner: st.UID, Unit: l.unitOf(pid), Log: l.logOf(pid)}, nil
}

// logOf is the file that a process writes its standard error to.
func (l *Local) logOf(pid int) string {
	to, err := os.Readlink(l.path(fmt.Sprintf("/proc/%d/fd/2", pid)))
	if err != nil || !filepath.IsAbs(to) {
		return ""
	}
	if st, err := l.Stat(to); err != nil || !st.Mode.IsRegular() {
		return ""
	}
	return to
}

// PGCtl restarts, or starts, a server that no unit keeps, as the given group
// of its account. Its log goes on where it was, if the account may write there.
func PGCtl(ctx context.Context, r Running, group int) error {
	ctx, stop := context.WithTimeout(ctx, 60*time.Second)
	defer stop()
	var as *Account
	if os.Getuid() == 0 && r.Owner != 0 {
		as = &Account{Name: strconv.Itoa(r.Owner), UID: r.Owner, GID: group, Home: "/"}
	}
	log := os.DevNull
	if r.Log != "" {
		if _, err := (Cmd{Argv: []string{"test", "-w", r.Log}, As: as}).Run(ctx, 1); err == nil {
			log = r.Log
		}
	}
	_, err := Cmd{As: as, Argv: []string{filepath.Join(filepath.Dir(r.Program), "pg_ctl"), "restart", "-D", r.DataDir,
		"-m", "fast", "-w", "-t", "50", "-s", "-l", log}}.Run(ctx, 1<<20)
	return err
}

func absInt(n int64) int64 { return max(n, -n) }

// unitOf reads the systemd unit from the process's control group.
func (l *Local) unitOf(pid int) string {
	b, err := l.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return ""
	}
	for _, line := range strings.Split(string(b), "\n") {
		last := line[strings.LastIndexByte(line, '/')+1:]
		if strings.HasSuffix(last, ".service") && strings.HasPrefix(last, "postgres") {
			return last
		}
	}
	return ""
}

// PGRestart implements Writer.
func (l *Local) PGRestart(ctx context.Context) error {
	if l.opt.Restarter != nil {
		l.pg.close()
		return l.opt.Restarter(ctx)
	}
	r, err := l.PGRunning(ctx)
	if err != nil {
		return fail.Hint(fmt.Errorf("restart the server: %w", err),
			"restart it yourself where it runs; the setting is stored and takes effect then")
	}
	l.pg.close()
	if r.Unit != "" {
		_, err = l.Run(ctx, "systemctl", "restart", "--", r.Unit)
	} else {
		err = l.pgCtl(ctx, r)
	}
	if err != nil {
		return fmt.Errorf("restart the server: %w", err)
	}
	return l.awaitPG(ctx)
}

func (l *Local) pgCtl(ctx context.Context, r Running) error {
	st, err := l.Stat(r.DataDir)
	if err != nil {
		return err
	}
	return PGCtl(ctx, r, st.GID)
}

// awaitPG waits up to 60 s until the server answers again.
func (l *Local) awaitPG(ctx context.Context) error {
	ctx, stop := context.WithTimeout(ctx, 60*time.Second)
	defer stop()
	for {
		l.pg.close()
		err := l.Ping(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(errors.New("wait for the server: it does not answer"), err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}
