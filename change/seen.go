package change

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"headroom/fail"
	"headroom/host"
)

// sshPort is where people come in.
const sshPort = 22

// remember keeps, of a change that may cut off, which connections there are
// before anybody can have come in anew.
func (r *run) remember(rec *Record, res *Result) error {
	if !r.plan.CutsOff() {
		return nil
	}
	port := r.o.ConfirmPort
	if port == 0 {
		port = WayIn(r.w)
	}
	all, err := host.Connections(port)
	if err != nil {
		return err
	}
	listens := false
	for _, c := range all {
		listens = listens || c.Listening
		if !c.Listening {
			rec.Known = append(rec.Known, known(c))
		}
	}
	if !listens {
		res.Notes = append(res.Notes, fmt.Sprintf("nothing listens on TCP port %d, so nobody can come in there: confirming will take --confirm-unseen, or apply it with --confirm-port", port))
	}
	rec.Port, res.Port = port, port
	return nil
}

// known names a connection so that it is not taken for another.
func known(c host.Connection) string {
	return fmt.Sprintf("%s %s %x", c.Peer, c.Local, c.Cookie)
}

// newcomer is the peer of a connection from outside to the change's port that
// was not there when it was applied; "" if there is none.
func (e *Entry) newcomer() (string, error) {
	all, err := host.Connections(e.Port)
	if err != nil {
		return "", err
	}
	own, err := host.OwnAddresses()
	if err != nil {
		return "", err
	}
	for _, c := range all {
		if c.Shook && outside(c, own) && !e.knew(c) {
			return c.Peer.String(), nil
		}
	}
	return "", nil
}

// knew says whether a connection was there, or on its way, when the change was
// applied.
func (e *Entry) knew(c host.Connection) bool {
	early := c
	early.Cookie = 0 // it had not shaken hands
	return slices.Contains(e.known, known(c)) || slices.Contains(e.known, known(early))
}

// outside says that a connection came over the network: rules for it tell
// nothing of those for this machine's own addresses.
func outside(c host.Connection, own []netip.Addr) bool {
	peer := c.Peer.Addr().WithZone("")
	return !peer.IsLoopback() && peer != c.Local.Addr() && !slices.Contains(own, peer)
}

// arrivals keeps the guard's eye on who comes in.
type arrivals struct {
	j    *Journal
	last time.Time
	done bool
}

const arrivalsEvery = 500 * time.Millisecond

// look writes down that somebody came in anew, once, for a confirmation that
// is given after that connection is closed.
func (a *arrivals) look(e Entry) {
	if e.Port == 0 || a.done || time.Since(a.last) < arrivalsEvery {
		return
	}
	a.last = time.Now()
	peer, err := e.newcomer()
	if err == nil && peer != "" {
		a.done = host.WriteDurable(a.j.seenFile(e.ID), []byte(peer+"\n"), 0o600) == nil
	}
}

func (j *Journal) seenFile(id string) string { return filepath.Join(j.run, id+".seen") }

// Newcomer is the peer of a new connection from outside that was seen since an
// unconfirmed change was applied that may cut off: "" if none was yet, or if
// the change wants none (Entry.Port is 0).
func (j *Journal) Newcomer(e Entry) (peer string, err error) {
	if e.Port == 0 {
		return "", nil
	}
	if peer, err = e.newcomer(); peer != "" {
		return peer, nil
	}
	if b, rerr := os.ReadFile(j.seenFile(e.ID)); rerr == nil {
		return strings.TrimSpace(string(b)), nil
	}
	return "", err
}

// cameIn says in words who came in anew since a change was applied that may
// cut off; "" for all other changes. Nobody is an error, unless that is
// accepted.
func (j *Journal) cameIn(e Entry, unseen bool) (string, error) {
	if e.Port == 0 {
		return "", nil
	}
	peer, err := j.Newcomer(e)
	switch {
	case peer != "":
		return fmt.Sprintf("seen since: a new connection from %s to port %d", peer, e.Port), nil
	case unseen:
		return "confirmed without a new connection having been seen", nil
	case err == nil:
		err = errors.New("none was seen")
	}
	return "", fail.Hint(fmt.Errorf("confirm %s: it wants a new connection from outside to TCP port %d since it was applied: %w", e.ID, e.Port, err),
		"leave this one open, log in once more from another machine and confirm there (this connection proves nothing: it was there before; one that lasts less than half a second may be missed); at the console: --confirm-unseen. Without, it is taken back at %s",
		e.ConfirmBy.Local().Format(time.TimeOnly))
}

var sshdPort = regexp.MustCompile(`(?mi)^\s*Port\s+(\d+)\s*$`)

// WayIn is the TCP port where people come in to this machine: that of the
// present SSH session, else the first that sshd is told to listen on, else
// SSH's own.
func WayIn(r host.Reader) uint16 {
	// client address, client port, server address, server port
	if f := strings.Fields(os.Getenv("SSH_CONNECTION")); len(f) == 4 {
		if n, err := strconv.ParseUint(f[3], 10, 16); err == nil && n > 0 {
			return uint16(n)
		}
	}
	more, _ := r.Glob("/etc/ssh/sshd_config.d/*.conf")
	for _, file := range append(more, "/etc/ssh/sshd_config") {
		b, err := r.ReadFile(file)
		if err != nil {
			continue
		}
		if m := sshdPort.FindSubmatch(b); m != nil {
			if n, err := strconv.ParseUint(string(m[1]), 10, 16); err == nil && n > 0 {
				return uint16(n)
			}
		}
	}
	return sshPort
}
