package trial

import "strings"

// checkpointSettings are those that an arm's checkpoints depend on: a trial of
// them is about checkpoints, which are then no disturbance.
var checkpointSettings = []string{
	"max_wal_size", "min_wal_size", "checkpoint_", "wal_", "full_page_writes", "bgwriter_", "shared_buffers",
	"fsync", "synchronous_commit", "commit_", "archive_",
}

// vacuumSettings are those that decide when and how autovacuum works.
var vacuumSettings = []string{"autovacuum", "vacuum_", "maintenance_work_mem"}

// about tells what the arms' own changes bring about and hence cannot disturb.
func about(arms []Arm) map[Cause]bool {
	out := map[Cause]bool{}
	for _, a := range arms {
		for _, c := range a.Changes {
			for name := range c.Args {
				if anyPrefix(name, checkpointSettings) {
					out[ByCheckpoint] = true
				}
				if anyPrefix(name, vacuumSettings) {
					out[ByAutovacuum] = true
				}
			}
		}
	}
	return out
}

func anyPrefix(name string, prefixes []string) bool {
	for _, p := range prefixes {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	return false
}
