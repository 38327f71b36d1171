package change

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
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
		port = sshPort
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

// cameIn says in words who came in anew since a change was applied that may
// cut off; "" for all other changes. Nobody is an error, unless that is
// accepted.
func (j *Journal) cameIn(e Entry, unseen bool) (string, error) {
	if e.Port == 0 {
		return "", nil
	}
	peer, err := e.newcomer()
	if b, rerr := os.ReadFile(j.seenFile(e.ID)); peer == "" && rerr == nil {
		peer, err = strings.TrimSpace(string(b)), nil
	}
	switch {
	case peer != "":
		return fmt.Sprintf("seen since: a new connection from %s to port %d", peer, e.Port), nil
	case unseen:
		return "confirmed without a new connection having been seen", nil
	case err == nil:
		err = errors.New("none was seen")
	}
	return "", fail.Hint(fmt.Errorf("confirm %s: it wants a new connection from outside to TCP port %d since it was applied: %w", e.ID, e.Port, err),
		"leave this one open, log in once more from another machine (this connection proves nothing: it was there before), then confirm again; at the console: --confirm-unseen. Without, it is taken back at %s",
		e.ConfirmBy.Local().Format(time.TimeOnly))
}
