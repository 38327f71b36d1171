package postgres

import (
	"time"

	"headroom/metric"
)

// How often what is costly is read. All else is read every 10 s.
const (
	listsEvery = time.Minute     // tables, indexes, statements, settings
	sizesEvery = 5 * time.Minute // sizes of databases, which look at each file
)

// collectors read a server's numbers over time.
var collectors = []*metric.Collector{
	serverCollector, settingsCollector,
	databasesCollector, activityCollector, locksCollector,
	walCollector, walFilesCollector, checkpointsCollector, ioCollector, slruCollector,
	replicationCollector, vacuumCollector,
	tablesCollector, indexesCollector, sizesCollector, statementsCollector,
}
