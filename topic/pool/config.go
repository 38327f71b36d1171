package pool

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"headroom/host"
	"headroom/metric"
)

func single(name, help, source string) *metric.Def {
	return &metric.Def{Name: name, Unit: metric.Count, Kind: metric.Gauge, Help: help, Source: source}
}

var (
	allClients  = single("pgbouncer_clients_connected", "Clients of all pools.", "SHOW LISTS used_clients")
	clientLimit = single("pgbouncer_clients_limit", "Clients that may connect.", "SHOW CONFIG max_client_conn")
	allServers  = single("pgbouncer_servers_connected", "Connections to servers of all pools.", "SHOW LISTS used_servers")
	poolSize    = single("pgbouncer_pool_size", "Connections to its server that a pool may have, where the database says nothing else.", "SHOW CONFIG default_pool_size")
	reserve     = single("pgbouncer_reserve_pool_size", "Further connections that a pool may have when clients wait for long.", "SHOW CONFIG reserve_pool_size")
	dbLimit     = single("pgbouncer_database_connections_limit", "Connections that one database may have; 0: no limit.", "SHOW CONFIG max_db_connections")
	pools       = single("pgbouncer_pools", "Pools: pairs of database and user.", "SHOW LISTS pools")
	databases   = single("pgbouncer_databases", "Databases that are configured.", "SHOW LISTS databases")
	lookups     = single("pgbouncer_dns_pending", "Names of hosts that are being looked up.", "SHOW LISTS dns_pending")
	version     = &metric.Def{Name: "pgbouncer_info", Unit: metric.Info, Kind: metric.Gauge, Labels: []string{"version", "pool_mode"},
		Help: "What PgBouncer runs; always 1.", Source: "SHOW VERSION, SHOW CONFIG pool_mode"}
)

// entry is a metric that is a row of a table of names and values.
type entry struct {
	key string
	def *metric.Def
}

var listEntries = []entry{{"used_clients", allClients}, {"used_servers", allServers}, {"pools", pools}, {"databases", databases}, {"dns_pending", lookups}}

var configEntries = []entry{{"max_client_conn", clientLimit}, {"default_pool_size", poolSize}, {"reserve_pool_size", reserve}, {"max_db_connections", dbLimit}}

var configCollector = &metric.Collector{
	Name: "pool.limits", Doc: "connections against their limits, settings, version", Of: metric.PgBouncer,
	Defs: []*metric.Def{allClients, clientLimit, allServers, poolSize, reserve, dbLimit, pools, databases, lookups, version},
	Collect: func(ctx context.Context, r host.Reader, out *metric.Out) error {
		lists, err := r.Console(ctx, "show lists")
		if err != nil {
			return err
		}
		giveEntries(out, dictionary(lists, "list", "items"), "SHOW LISTS", listEntries)
		t, err := r.Console(ctx, "show config")
		if err != nil {
			return err
		}
		set := dictionary(t, "key", "value")
		giveEntries(out, set, "SHOW CONFIG", configEntries)
		v, err := r.Console(ctx, "show version")
		if err != nil {
			return err
		}
		if len(v.Rows) == 1 && len(v.Rows[0]) == 1 {
			out.Add(version, 1, strings.TrimPrefix(v.Rows[0][0], "PgBouncer "), set["pool_mode"])
		} else {
			out.Gap("PgBouncer does not tell its version", "", version)
		}
		return nil
	},
}

// dictionary makes a map of two columns; nothing if there are none such.
func dictionary(t host.Table, key, value string) map[string]string {
	k, v := slices.Index(t.Columns, key), slices.Index(t.Columns, value)
	out := map[string]string{}
	if k < 0 || v < 0 {
		return out
	}
	for _, row := range t.Rows {
		out[row[k]] = row[v]
	}
	return out
}

func giveEntries(out *metric.Out, of map[string]string, command string, entries []entry) {
	for _, e := range entries {
		f, err := strconv.ParseFloat(of[e.key], 64)
		if err != nil {
			out.Gap(command+" of this PgBouncer does not tell "+e.key, "", e.def)
			continue
		}
		out.Add(e.def, f)
	}
}
