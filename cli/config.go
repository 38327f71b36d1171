package cli

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/pelletier/go-toml/v2"

	"headroom/fail"
	"headroom/host"
)

// config is what config.toml may hold; a flag wins over it. Every key is
// optional and an unknown one is an error that names its line.
type config struct {
	DB     string `toml:"db"`      // default of --db
	FailOn string `toml:"fail-on"` // default of check --fail-on
	Budget string `toml:"budget"`  // default of try --budget
	Probe  *bool  `toml:"probe"`   // false: never measure the disk when looking

	Up upConfig `toml:"up"` // headroom up and agent
}

func readConfig() (config, error) {
	var c config
	dirs, err := host.OwnDirs()
	if err != nil { // no home, no configuration: those that need a folder say so
		return c, nil
	}
	path := filepath.Join(dirs.Config, "config.toml")
	raw, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return c, nil
	}
	if err != nil {
		return c, fmt.Errorf("read configuration: %w", err)
	}
	dec := toml.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&c); err != nil {
		return c, fail.With(fmt.Errorf("read configuration %s: %s", path, tomlReason(err)), fail.Usage)
	}
	return c, nil
}

// takes is what each key of the configuration takes.
var takes = map[string]string{
	"db":      `text: db = "host=/var/run/postgresql"`,
	"fail-on": `text: fail-on = "warning"`,
	"budget":  `text: budget = "2m"`,
	"probe":   "true or false",
}

func tomlReason(err error) string {
	var strict *toml.StrictMissingError
	if errors.As(err, &strict) && len(strict.Errors) > 0 {
		row, _ := strict.Errors[0].Position()
		return fmt.Sprintf("line %d: unknown key %q (known: db, fail-on, budget, probe, and [up] with those of its flags)", row, strings.Join(strict.Errors[0].Key(), "."))
	}
	var bad *toml.DecodeError
	if errors.As(err, &bad) {
		row, col := bad.Position()
		if len(bad.Key()) > 0 && strings.Contains(bad.Error(), "cannot") {
			return fmt.Sprintf("line %d: %s takes %s", row, strings.Join(bad.Key(), "."), takes[bad.Key()[0]])
		}
		return fmt.Sprintf("line %d, column %d: %s", row, col, bad.Error())
	}
	return err.Error()
}
