package ingest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"syscall"

	"headroom/fail"
	"headroom/host"
)

// checkpoint is how far a run came, as kept in a file.
type checkpoint struct {
	Format string              `json:"format"`
	Schema int                 `json:"schema"`
	Table  string              `json:"table"`
	Inputs []string            `json:"inputs"`
	Known  map[string]identity `json:"known"` // by place in Inputs
	At     Position            `json:"acknowledged"`
	Done   bool                `json:"complete"`

	mu sync.Mutex // for Known: inputs are opened while checkpoints are written
}

const checkpointFormat = "headroom-ingest-checkpoint"

// identity tells one input file from another.
type identity struct {
	Size   int64  `json:"size"` // at least: files may grow
	Inode  uint64 `json:"inode"`
	Device uint64 `json:"device"`
	Head   int    `json:"head_bytes"`
	Hash   string `json:"head_sha256"`
}

const identityBytes = 4096

// resume reads the checkpoint, if there is one, and begins a new one.
func (r *run) resume() error {
	c := &r.saved
	c.Known = map[string]identity{}
	if r.o.Checkpoint == "" {
		return nil
	}
	raw, err := os.ReadFile(r.o.Checkpoint)
	if err == nil {
		err = c.load(raw, r.o)
	}
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	if err != nil {
		return fmt.Errorf("read checkpoint %s: %w", r.o.Checkpoint, err)
	}
	c.Format, c.Schema, c.Table, c.Inputs, c.Done = checkpointFormat, 1, r.o.Into, r.o.Inputs, false
	r.acked = c.At
	if c.At != (Position{}) {
		at := c.At
		r.resumed = &at
	}
	return nil
}

func (c *checkpoint) load(raw []byte, o Options) error {
	const way = "name the checkpoint file of this input and table, or remove it to begin anew"
	if err := json.Unmarshal(raw, c); err != nil || c.Format != checkpointFormat {
		return fail.Hint(errors.New("it is no checkpoint of ingest"), way)
	}
	switch {
	case c.Schema != 1:
		return fmt.Errorf("it was written by a newer version (schema %d)", c.Schema)
	case c.Table != o.Into:
		return fail.Hint(fmt.Errorf("it is of table %s, not %s", c.Table, o.Into), way)
	case !slices.Equal(c.Inputs, o.Inputs):
		return fail.Hint(fmt.Errorf("it is of inputs %q, not %q", c.Inputs, o.Inputs), way)
	case c.At.Input < 0 || c.At.Input >= len(c.Inputs) || c.At.Offset < 0 || c.At.Line < 0:
		return fail.Hint(errors.New("it is damaged"), way)
	}
	if c.Known == nil {
		c.Known = map[string]identity{}
	}
	return nil
}

// know checks that an input is the one that the checkpoint speaks of, and
// remembers it. Streams cannot be told apart.
func (c *checkpoint) know(n int, name string, r io.Reader) error {
	f, ok := r.(*os.File)
	if !ok {
		return nil
	}
	st, err := f.Stat()
	if err != nil || !st.Mode().IsRegular() {
		return err
	}
	now := identity{Size: st.Size(), Head: int(min(st.Size(), identityBytes))}
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		now.Inode, now.Device = sys.Ino, sys.Dev
	}
	if now.Hash, err = headHash(f, now.Head); err != nil {
		return fmt.Errorf("read input %s: %w", name, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	key := fmt.Sprint(n)
	if was, ok := c.Known[key]; ok {
		hash := ""
		if was.Head >= 0 && was.Head <= now.Head {
			if hash, err = headHash(f, was.Head); err != nil {
				return fmt.Errorf("read input %s: %w", name, err)
			}
		}
		moved := was.Inode != now.Inode || was.Device != now.Device
		if was.Size > now.Size || hash != was.Hash || moved && was.Size != now.Size {
			return fail.Hint(fmt.Errorf("resume input %s: it is another file than the one begun", name), "give that file, or remove the checkpoint to begin anew")
		}
	}
	c.Known[key] = now
	return nil
}

func headHash(f *os.File, n int) (string, error) {
	b := make([]byte, n)
	if _, err := f.ReadAt(b, 0); err != nil && err != io.EOF {
		return "", err
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:]), nil
}

// save finds out how far the input is in, and writes that down if it moved.
// Bad records before it are on disk first.
func (r *run) save() error {
	was := r.acked
	if at, ok := r.pump.acked(r.writer.Acked()); ok {
		r.acked = at
	}
	if r.reached != nil {
		r.acked = *r.reached
	}
	if r.acked == was && r.done == r.saved.Done {
		return nil
	}
	if err := r.rejects.Sync(); err != nil {
		return err
	}
	if r.o.Checkpoint == "" {
		return nil
	}
	r.saved.mu.Lock()
	r.saved.At, r.saved.Done = r.acked, r.done
	raw, err := json.MarshalIndent(&r.saved, "", "  ")
	r.saved.mu.Unlock()
	if err != nil {
		return fmt.Errorf("write checkpoint: %w", err)
	}
	return host.WriteDurable(r.o.Checkpoint, append(raw, '\n'), 0o600)
}
