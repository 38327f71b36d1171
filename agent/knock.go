package agent

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"headroom/fail"
	"headroom/host"
	"headroom/metric"
)

// Identity is who a server is by its own word, and how well one way leads to
// it. A standby has the system identifier of its primary, but was started at
// another moment.
type Identity struct {
	System  string // system identifier; "": not known
	Started int64  // when the postmaster started, microseconds since 1970 by its clock
	Port    int    // by its own settings
	Rights  int    // what the way's login sees: 3 everything, 2 as pg_monitor, 1 less
	Pooled  bool   // a pooler is between
	Master  int    // process number of its postmaster, if that runs here; 0: not known
}

// is says whether two identities are of one server.
func (i Identity) is(j Identity) bool {
	return i.System != "" && i.System == j.System && i.Started == j.Started && i.Port == j.Port
}

// restarted says whether two identities may be of one server, asked before and
// after it was restarted.
func (i Identity) restarted(j Identity) bool {
	return i.System != "" && i.System == j.System && i.Started != j.Started && i.Port == j.Port
}

//go:embed identity.sql
var identityQuery string

// loginWait bounds one try to log in.
const loginWait = 2 * time.Second

func realKnock(ctx context.Context, kind metric.Target, dsn string) (Identity, error) {
	ctx, stop := context.WithTimeout(ctx, loginWait)
	defer stop()
	l := host.Open(host.Options{DSN: dsn, WithPG: true})
	defer l.Close()
	if kind == metric.PgBouncer {
		_, err := l.Console(ctx, "show version")
		return Identity{}, err
	}
	var id Identity
	var backend int
	err := l.PG(ctx, func(ctx context.Context, tx pgx.Tx) error {
		err := tx.QueryRow(ctx, identityQuery).Scan(&id.System, &id.Started, &id.Port, &id.Rights, &backend)
		if err == nil {
			id.Master = parentOf(l, backend)
		}
		return err
	})
	if err != nil && !errors.Is(err, host.ErrConnect) {
		return Identity{}, nil // it lets us in, and does not say who it is
	}
	id.Pooled = err == nil && l.Pooled()
	return id, err
}

// parentOf is the postmaster of a back end, if that is a process of this
// machine; else 0.
func parentOf(r host.Reader, pid int) int {
	b, err := r.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	if p, ok := parseStat(string(b)); ok && (p.name == "postgres" || p.name == "postmaster") {
		return p.parent
	}
	return 0
}

// login is what came of trying to log in to one server.
type login struct {
	dsn           string // "" if none worked
	id            Identity
	away          bool // it did not answer when it was asked last
	missing, hint string
	again         time.Time // no try before
	pause         time.Duration
}

// try logs in by each way until one works and sees all that the collectors
// want; if none does, the one that sees most is taken. was is what the last
// try brought, which may be nil.
func (f *Finder) try(ctx context.Context, c *candidate, was *login) *login {
	knock := f.Knock
	if knock == nil {
		knock = realKnock
	}
	l := &login{}
	ways := c.dsns
	if was != nil { // a server keeps its identity while it is away, and the way that worked comes first
		l.id, l.pause = was.id, was.pause
		if was.dsn != "" {
			ways = append([]string{was.dsn}, ways...)
		}
	}
	var refused error
	best := 0
	for i, dsn := range ways {
		id, err := knock(ctx, c.Kind, dsn)
		if err != nil && loginRefused(err) {
			if refused == nil {
				refused = err
			}
			continue
		}
		if l.dsn == "" || id.Rights > best {
			l.dsn, l.away, best = dsn, err != nil, id.Rights // a server that does not answer now is for the rounds to tell
			if err == nil {
				l.id = id
			}
		}
		if err != nil || id.Rights != 1 || i == 0 && was != nil && was.dsn != "" {
			break
		}
	}
	if l.dsn != "" {
		l.pause, l.again = 0, time.Now().Add(loginEvery-time.Second)
		if l.away {
			l.again = time.Time{}
		}
		return l
	}
	l.pause = min(max(2*l.pause, findEvery), loginEvery)
	l.again = time.Now().Add(l.pause - time.Second)
	l.missing = fmt.Sprintf("found (%s), but cannot log in: %v", c.Found, refused)
	l.hint = cmp.Or(c.way, fail.HintOf(refused))
	if l.id.System == "" && c.dir != "" { // which of the servers refuses us, the kernel tells
		l.id = Identity{Port: c.port, Master: f.listener(place{dir: c.dir, port: c.port}.socket())}
	}
	return l
}

// listener is the process that listens on a socket of this machine; 0: not
// known.
func (f *Finder) listener(socket string) int {
	if f.Knock != nil || strings.HasPrefix(socket, "@") {
		return 0
	}
	pid, err := host.ListenerOf(socket)
	if err != nil {
		return 0
	}
	return pid
}
