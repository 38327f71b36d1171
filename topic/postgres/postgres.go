// Package postgres is the topic of a PostgreSQL server's own settings and
// state: memory, write-ahead log and checkpoints, vacuum, planner costs,
// connections, safety, and what it tells about itself.
//
// Checks here never shout at a server for being stock: one fires when figures
// of this server or machine say that something is at stake.
package postgres

import (
	"headroom/change"
	"headroom/check"
	"headroom/probe/pg"
	"headroom/topic"
)

// Topic is the subject PostgreSQL.
var Topic = topic.Topic{
	Name:  "postgres",
	Title: "PostgreSQL: settings, write-ahead log, vacuum, connections, safety",
	Facts: pg.Sources(),
	Checks: []*check.Check{
		maxWALSize, checkpointTimeout, completionTarget, walCompression, walBuffers,
		sharedBuffers, hugePages, effectiveCache, workMem, tempFiles, maintenanceMem,
		randomPageCost, ioConcurrency,
		maxConnections, connectionRoom, oldTransaction,
		autovacuumOff, autovacuumLazy, tableDue, transactionAge,
		fsyncOff, fullPageWrites, synchronousCommit, checksums, endOfLife, minorRelease,
		pendingRestart, statementStatistics, logging, replicationSlot,
	},
	Recipes:    []*change.Recipe{settingRecipe, extensionRecipe},
	Workloads:  Workloads,
	Collectors: collectors,
}
