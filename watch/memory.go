package watch

import (
	"encoding/hex"
	"errors"
	"hash/fnv"
	"io/fs"
	"os"
	"path/filepath"

	"headroom/host"
	"headroom/metric"
)

// keeper keeps what collectors must know after a restart, a file for each
// collector and server.
func (p place) keeper(collector, server string) metric.Keeper {
	name := collector
	if server != "" {
		h := fnv.New64a()
		_, _ = h.Write([]byte(server))
		name += "-" + hex.EncodeToString(h.Sum(nil))
	}
	return keptFile(p.path(filepath.Join("memory", name+".json")))
}

type keptFile string

// Load implements metric.Keeper.
func (f keptFile) Load() ([]byte, error) {
	b, err := os.ReadFile(string(f))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return b, err
}

// Save implements metric.Keeper.
func (f keptFile) Save(b []byte) error {
	if err := os.MkdirAll(filepath.Dir(string(f)), 0o700); err != nil {
		return err
	}
	return host.WriteDurable(string(f), b, 0o600)
}
