package queue

import (
	"fmt"
	"os"
	"strings"
	"sync"
)

// quarantine keeps copies of damaged bytes, for people to look at. It is
// bounded: past its limit damage is still told and counted, and not kept.
type quarantine struct {
	dir string

	mu    sync.Mutex
	bytes int64 // negative: not looked yet
}

const quarantineBytes = 64 << 20

func newQuarantine(dir string) *quarantine { return &quarantine{dir: dir, bytes: -1} }

func quarantineName(segment string, off int64) string {
	return fmt.Sprintf("%s-%d.bad", strings.TrimSuffix(segment, ".hq1"), off)
}

// keep is best effort, and keeps the first of a name: what it is told of is lost already.
func (q *quarantine) keep(name string, raw []byte) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.bytes < 0 {
		q.bytes = 0
		entries, _ := os.ReadDir(q.dir)
		for _, e := range entries {
			if info, err := e.Info(); err == nil {
				q.bytes += info.Size()
			}
		}
	}
	if q.bytes+int64(len(raw)) > quarantineBytes || os.MkdirAll(q.dir, 0o700) != nil {
		return
	}
	if _, err := os.Stat(folder(q.dir).path(name)); err == nil {
		return // the same damage, met by an earlier process
	}
	if folder(q.dir).Replace(name, raw) == nil {
		q.bytes += int64(len(raw))
	}
}
