package watch

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"headroom/fail"
	"headroom/host"
	"headroom/web"
	"headroom/web/auth"
)

// place is the folder of one running watcher: queue, tokens, sessions.
type place struct{ dir string }

func upPlace(d host.Dirs) place    { return place{filepath.Join(d.State, "up")} }
func agentPlace(d host.Dirs) place { return place{filepath.Join(d.State, "agent")} }

func (p place) path(name string) string { return filepath.Join(p.dir, name) }

// make makes the folder, for its owner alone; what is above it may be passed
// through.
func (p place) make() error {
	err := os.MkdirAll(filepath.Dir(p.dir), 0o711)
	if err == nil {
		err = os.Mkdir(p.dir, 0o700)
	}
	switch {
	case errors.Is(err, os.ErrExist):
		err = nil
	case err == nil: // the service's account, if root is first
		err = p.give()
	}
	if err != nil {
		return fail.Hint(fmt.Errorf("make the folder %s: %w", p.dir, err), "name a folder that this account can write to: HEADROOM_STATE=DIR headroom …")
	}
	return nil
}

func (p place) give() error {
	f, err := os.OpenFile(p.dir, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	return host.GiveToFolder(f)
}

// hold takes the folder for this process until it ends; a second one is
// refused and told who has it.
func (p place) hold() (release func(), err error) {
	if err := p.make(); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(p.path("lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("take the folder %s: %w", p.dir, err)
	}
	if who := p.taken(f); who != "" {
		defer f.Close()
		return nil, fail.With(fail.Hint(fmt.Errorf("take the folder %s: process %s has it", p.dir, who),
			"it is watched already: headroom up link prints a login link"), fail.Locked)
	}
	if err := errors.Join(f.Truncate(0), writeAt(f, fmt.Sprintln(os.Getpid()))); err != nil {
		return nil, errors.Join(fmt.Errorf("take the folder %s: %w", p.dir, err), f.Close())
	}
	return func() { _ = f.Close() }, nil
}

// goneFor is how long the lock of a process that is gone may last: a child that
// it was just about to start has the lock until it is another program.
const goneFor = 10 * time.Second

// taken locks the file, or tells which process has it.
func (p place) taken(f *os.File) (who string) {
	for end := time.Now().Add(goneFor); ; time.Sleep(20 * time.Millisecond) {
		if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			return ""
		}
		text, _ := os.ReadFile(p.path("lock"))
		who = cmp.Or(strings.TrimSpace(string(text)), "that has not told its number")
		if pid, err := strconv.Atoi(who); err == nil && syscall.Kill(pid, 0) != syscall.ESRCH || time.Now().After(end) {
			return who
		}
	}
}

// held says whether a process has the folder.
func (p place) held() bool {
	f, err := os.Open(p.path("lock"))
	if err != nil {
		return false
	}
	defer f.Close()
	return syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB) != nil
}

func writeAt(f *os.File, text string) error {
	_, err := f.WriteAt([]byte(text), 0)
	return err
}

// Tokens are the tokens of programs that may talk to this machine's `up`.
func Tokens(d host.Dirs) (*auth.Tokens, error) {
	p := upPlace(d)
	if err := p.make(); err != nil {
		return nil, err
	}
	return auth.OpenTokens(p.path("tokens.json")), nil
}

// Usage is what those tokens have used of their budgets of new series.
func Usage(d host.Dirs) *auth.Usage { return auth.OpenUsage(upPlace(d).path("series.json")) }

// running is what a running `up` tells others on this machine.
type running struct {
	URL     string `json:"url"`
	Changes bool   `json:"changes"` // plans may be applied from the page
}

func (p place) tell(r running) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return host.WriteDurable(p.path("running.json"), b, 0o600)
}

// Link makes a new login link for the page of a running `up`: good once, for
// 15 minutes. fail.ErrAbsent if none runs here.
func Link(d host.Dirs) (string, error) {
	p := upPlace(d)
	b, err := os.ReadFile(p.path("running.json"))
	if errors.Is(err, os.ErrNotExist) {
		return "", fail.Hint(fmt.Errorf("make a login link: nothing runs here: %w", fail.ErrAbsent), "start it with: headroom up")
	}
	if err == nil && !p.held() {
		return "", fail.Hint(fmt.Errorf("make a login link: nothing runs here now: %w", fail.ErrAbsent), "start it with: headroom up")
	}
	var r running
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	if err != nil {
		return "", fmt.Errorf("make a login link: %w", err)
	}
	return p.link(r)
}

// relink is link where the file of sessions is damaged: that is set aside, so
// that it does not keep the page from starting, and people log in anew.
func (p place) relink(r running, say func(string)) (string, error) {
	path := p.path("sessions.json")
	if err := os.Rename(path, path+".damaged"); err != nil {
		return "", fmt.Errorf("set a damaged file aside: %w", err)
	}
	say("the file of sessions was damaged, and is " + path + ".damaged now: everybody has to log in again")
	return p.link(r)
}

// link makes a login link. Its session may apply plans only where the server
// allows that.
func (p place) link(r running) (string, error) {
	scopes := []auth.Scope{auth.Read}
	if r.Changes {
		scopes = append(scopes, auth.Change)
	}
	return web.LoginLink(auth.OpenSessions(p.path("sessions.json")), r.URL, scopes...)
}
