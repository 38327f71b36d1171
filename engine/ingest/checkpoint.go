package ingest

import (
	"crypto/rand"
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

	"headroom/engine/upsert"
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
	// Source is this run's name in the database, in mode add.
	Source string `json:"source,omitempty"`
	// Key, for Source, are the key's columns: they decide which notes are a row's.
	Key []Field `json:"key,omitempty"`
	// Ends, for Source, is where inputs ended when the next one was begun.
	Ends map[string]int64 `json:"ends,omitempty"`

	mu sync.Mutex // inputs are opened while checkpoints are written
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
	if err == nil {
		err = r.name()
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

// name has the database keep, in mode add, which rows are in: the checkpoint is
// always behind.
func (r *run) name() error {
	c := &r.saved
	if r.o.Upsert.Mode != upsert.Add {
		return nil
	}
	named := func(a, b Field) bool { return a.Name == b.Name && a.source() == b.source() }
	if c.Source == "" {
		if c.At != (Position{}) && !c.Done {
			r.o.say("checkpoint %s is of an older version: what was added behind it, if that run was killed, is added again this once", r.o.Checkpoint)
		}
		c.Source = rand.Text()
	} else if r.o.Upsert.Resumed = !c.Done; !slices.EqualFunc(c.Key, r.o.Key, named) {
		return fail.Hint(errors.New("it is of a run with another key"), "give the same --key, in the same order, or remove it to begin anew")
	}
	r.o.Upsert.Source, c.Key = c.Source, r.o.Key
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
// remembers it; it may have grown. Streams cannot be told apart.
func (c *checkpoint) know(n int, name string, r io.Reader) (grown bool, err error) {
	f, ok := r.(*os.File)
	if !ok {
		return false, nil
	}
	st, err := f.Stat()
	if err != nil || !st.Mode().IsRegular() {
		return false, err
	}
	now := identity{Size: st.Size(), Head: int(min(st.Size(), identityBytes))}
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		now.Inode, now.Device = sys.Ino, sys.Dev
	}
	if now.Hash, err = headHash(f, now.Head); err != nil {
		return false, fmt.Errorf("read input %s: %w", name, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	key := fmt.Sprint(n)
	if was, ok := c.Known[key]; ok {
		hash := ""
		if was.Head >= 0 && was.Head <= now.Head {
			if hash, err = headHash(f, was.Head); err != nil {
				return false, fmt.Errorf("read input %s: %w", name, err)
			}
		}
		moved := was.Inode != now.Inode || was.Device != now.Device
		if was.Size > now.Size || hash != was.Hash || moved && was.Size != now.Size {
			return false, fail.Hint(fmt.Errorf("resume input %s: it is another file than the one begun", name), "give that file, or remove the checkpoint to begin anew")
		}
	}
	grown = c.Known[key].Size > 0 && c.Known[key].Size < now.Size
	c.Known[key] = now
	return grown, nil
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
	return r.saved.write(r.o.Checkpoint, func(c *checkpoint) { c.At, c.Done = r.acked, r.done })
}

// write alters a checkpoint and has it on disk.
func (c *checkpoint) write(path string, alter func(*checkpoint)) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	alter(c)
	raw, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return fmt.Errorf("write checkpoint: %w", err)
	}
	return host.WriteDurable(path, append(raw, '\n'), 0o600)
}

// begin has a source's name on disk before the first row is in.
func (r *run) begin() error {
	if r.o.Upsert.Source == "" {
		return nil
	}
	return r.saved.write(r.o.Checkpoint, func(*checkpoint) {})
}

// ended notes where an input ended before a row of the next one is in: should
// it grow, its new rows would look like old ones.
func (r *run) ended(n int, at int64) error {
	if r.o.Upsert.Source == "" {
		return nil
	}
	return r.saved.write(r.o.Checkpoint, func(c *checkpoint) {
		if c.Ends == nil {
			c.Ends = map[string]int64{}
		}
		c.Ends[fmt.Sprint(n)] = at
	})
}

// endOf is where an input ended for an earlier run that went on to the next
// one; -1 if none did.
func (r *run) endOf(n int) int64 {
	r.saved.mu.Lock()
	defer r.saved.mu.Unlock()
	if at, ok := r.saved.Ends[fmt.Sprint(n)]; ok && r.o.Upsert.Source != "" {
		return at
	}
	return -1
}
