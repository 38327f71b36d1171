package change

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
)

// killTable is what became of all killed runs.
type killTable struct {
	mu      sync.Mutex
	rows    []killed
	reached map[string]bool
}

func (k *killTable) add(r killed) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.rows = append(k.rows, r)
	k.reached[r.Point] = true
}

func (k *killTable) write(t *testing.T) {
	ends := map[string]int{}
	for _, r := range k.rows {
		what, _, _ := strings.Cut(r.Ended, ":")
		ends[what]++
	}
	t.Logf("%d killed runs: %v", len(k.rows), ends)
	if *killResults == "" {
		return
	}
	slices.SortFunc(k.rows, func(a, b killed) int {
		return strings.Compare(fmt.Sprint(a.Scenario, a.Point, a.Signal, a.Pass), fmt.Sprint(b.Scenario, b.Point, b.Signal, b.Pass))
	})
	b, err := json.MarshalIndent(map[string]any{"runs": len(k.rows), "ended": ends, "rows": k.rows}, "", " ")
	must(t, err)
	must(t, os.WriteFile(*killResults, append(b, '\n'), 0o644))
}
