package jetstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"headroom/host"
)

// journal remembers how a queue was left when it was closed, so that what the
// server lost since, and does not say, is noticed. After a crash it is not
// there and nothing can be compared.
type journal struct{ path string }

type leftover struct {
	Last     uint64 `json:"last_sequence"`
	Messages uint64 `json:"messages"`
}

func openJournal(dir string) *journal { return &journal{filepath.Join(dir, "left.json")} }

func (j *journal) save(ctx context.Context, g *generation) {
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	info, err := g.messages.Info(ctx)
	if err != nil {
		return
	}
	raw, err := json.Marshal(leftover{info.State.LastSeq, info.State.Msgs})
	if err == nil {
		_ = host.WriteDurable(j.path, raw, 0o600)
	}
}

// compare tells what is missing since the queue was closed, and forgets it.
func (j *journal) compare(ctx context.Context, g *generation, l *line) {
	raw, err := os.ReadFile(j.path)
	if err != nil {
		return
	}
	_ = os.Remove(j.path)
	var was leftover
	if json.Unmarshal(raw, &was) != nil {
		return
	}
	info, err := g.messages.Info(ctx)
	if err != nil {
		return
	}
	if now := info.State.Msgs; now < was.Messages {
		l.lost.Add(was.Messages - now)
		l.note("lost %d messages: the queue was closed with %d (up to sequence %d) and holds %d", was.Messages-now, was.Messages, was.Last, now)
	}
}

// setAsideUnknown moves away streams that the server would not take and that
// would be in the way of new ones: their description is damaged.
func setAsideUnknown(dir string, note func(string, ...any)) error {
	for _, name := range []string{streamName, deadName} {
		at := filepath.Join(dir, "jetstream", "$G", "streams", name)
		meta, err := os.ReadFile(filepath.Join(at, "meta.inf"))
		if errors.Is(err, fs.ErrNotExist) {
			if _, err := os.Stat(at); err != nil {
				continue
			}
		}
		var c struct{ Name string }
		if json.Unmarshal(meta, &c) == nil && c.Name == name {
			continue
		}
		to := filepath.Join(dir, fmt.Sprintf("quarantine-%s-%d", name, time.Now().UnixNano()))
		if err := os.Rename(at, to); err != nil {
			return fmt.Errorf("set stream %s aside: %w", name, err)
		}
		note("the description of stream %s is damaged; all its messages are in %s", name, to)
	}
	return nil
}
