package host

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strings"

	"headroom/fail"
)

// Dirs are the folders that Headroom itself uses: the system's for root, the
// XDG ones for anybody else.
type Dirs struct {
	Config string // config.toml
	State  string // journal, results: must survive a reboot
	Run    string // locks: gone after a reboot
	Cache  string // downloaded server binaries, private servers
}

// OwnDirs returns the folders for the present user. HEADROOM_STATE names
// another place for all of them (tests, trials on a machine that must not be
// written to); a systemd unit's StateDirectory= and its like go before those
// of the user.
func OwnDirs() (Dirs, error) {
	if d := os.Getenv("HEADROOM_STATE"); d != "" {
		abs, err := filepath.Abs(d)
		if err != nil {
			return Dirs{}, fmt.Errorf("resolve HEADROOM_STATE: %w", err)
		}
		return Dirs{Config: abs, State: filepath.Join(abs, "state"), Run: filepath.Join(abs, "run"), Cache: filepath.Join(abs, "cache")}, nil
	}
	d := Dirs{Config: "/etc/headroom", State: "/var/lib/headroom", Run: "/run/headroom", Cache: "/var/cache/headroom"}
	if os.Getenv("STATE_DIRECTORY") != "" { // systemd.exec(5): set in a unit's processes
		for dir, name := range map[*string]string{&d.Config: "CONFIGURATION_DIRECTORY", &d.State: "STATE_DIRECTORY", &d.Run: "RUNTIME_DIRECTORY", &d.Cache: "CACHE_DIRECTORY"} {
			if first, _, _ := strings.Cut(os.Getenv(name), ":"); filepath.IsAbs(first) {
				*dir = first
			}
		}
		return d, nil
	}
	if os.Getuid() == 0 {
		return d, nil
	}
	home, err := os.UserHomeDir()
	if u, uerr := user.Current(); err != nil && uerr == nil && filepath.IsAbs(u.HomeDir) {
		home, err = u.HomeDir, nil
	}
	if err != nil {
		return Dirs{}, fail.Hint(fmt.Errorf("find your home folder: %w", err), "set HOME, or name a folder for Headroom's files in HEADROOM_STATE")
	}
	xdg := func(name, def string) string {
		if v := os.Getenv(name); filepath.IsAbs(v) {
			return filepath.Join(v, "headroom")
		}
		return filepath.Join(home, def, "headroom")
	}
	d = Dirs{Config: xdg("XDG_CONFIG_HOME", ".config"), State: xdg("XDG_STATE_HOME", ".local/state"), Cache: xdg("XDG_CACHE_HOME", ".cache")}
	d.Run = filepath.Join(d.State, "run")
	if v := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(v) {
		d.Run = filepath.Join(v, "headroom")
	}
	return d, nil
}
