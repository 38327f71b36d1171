package cli

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"

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
}

func readConfig() (config, error) {
	var c config
	dirs, err := host.OwnDirs()
	if err != nil {
		return c, err
	}
	path := filepath.Join(dirs.Config, "config.toml")
	raw, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
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

func tomlReason(err error) string {
	var strict *toml.StrictMissingError
	if errors.As(err, &strict) && len(strict.Errors) > 0 {
		row, _ := strict.Errors[0].Position()
		return fmt.Sprintf("line %d: unknown key %q (known: db, fail-on, budget, probe)", row, strict.Errors[0].Key())
	}
	var bad *toml.DecodeError
	if errors.As(err, &bad) {
		row, col := bad.Position()
		return fmt.Sprintf("line %d, column %d: %s", row, col, bad.Error())
	}
	return err.Error()
}
