// Package pool is the topic of PgBouncer: what goes through it, who waits for
// a connection, and how far it is from its limits.
package pool

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"headroom/host"
	"headroom/metric"
	"headroom/topic"
)

// Topic is connection pools.
var Topic = topic.Topic{
	Name:       "pool",
	Title:      "PgBouncer: traffic, waiting clients, pools against their limits",
	Collectors: []*metric.Collector{statsCollector, poolsCollector, configCollector},
}

// column is a metric that stands in a column of one of the console's tables.
// Columns are found by name: which there are depends on PgBouncer's version.
type column struct {
	def    *metric.Def
	name   string
	factor float64 // to base units; 0: 1
	label  string  // the value of a further label, if it has one
}

func statOf(name, unit, help, col string, factor float64) column {
	return column{name: col, factor: factor, def: &metric.Def{Name: name, Unit: unit, Kind: metric.Counter, Labels: []string{"database"}, Help: help, Source: "SHOW STATS " + col}}
}

const micro = 1e-6

var statColumns = []column{
	statOf("pgbouncer_transactions_total", metric.Count, "Transactions that went through.", "total_xact_count", 1),
	statOf("pgbouncer_queries_total", metric.Count, "Statements that went through.", "total_query_count", 1),
	statOf("pgbouncer_received_bytes_total", metric.Bytes, "Bytes from clients.", "total_received", 1),
	statOf("pgbouncer_sent_bytes_total", metric.Bytes, "Bytes to clients.", "total_sent", 1),
	statOf("pgbouncer_transaction_seconds_total", metric.Seconds, "Time that servers were in a transaction, summed.", "total_xact_time", micro),
	statOf("pgbouncer_query_seconds_total", metric.Seconds, "Time that servers worked on statements, summed.", "total_query_time", micro),
	statOf("pgbouncer_wait_seconds_total", metric.Seconds, "Time that clients waited for a server, summed.", "total_wait_time", micro),
	statOf("pgbouncer_server_assignments_total", metric.Count, "Times that a server was given to a client (PgBouncer 1.23 and newer).", "total_server_assignment_count", 1),
}

func defs(cols []column) []*metric.Def {
	var out []*metric.Def
	for _, c := range cols {
		if !slices.Contains(out, c.def) {
			out = append(out, c.def)
		}
	}
	return out
}

// maxPools bounds the series of one PgBouncer.
const maxPools = 200

var statsCollector = &metric.Collector{
	Name: "pool.stats", Doc: "transactions, statements, bytes and waiting of each database", Of: metric.PgBouncer, Fast: true, Defs: defs(statColumns),
	Collect: func(ctx context.Context, r host.Reader, out *metric.Out) error {
		t, err := r.Console(ctx, "show stats")
		if err != nil {
			return err
		}
		return give(out, t, "show stats", statColumns, "database")
	},
}

var (
	clients = &metric.Def{Name: "pgbouncer_clients", Unit: metric.Count, Kind: metric.Gauge, Labels: []string{"database", "user", "state"},
		Help: "Clients of a pool: active (linked to a server, or idle) or waiting for one.", Source: "SHOW POOLS cl_active, cl_waiting"}
	servers = &metric.Def{Name: "pgbouncer_servers", Unit: metric.Count, Kind: metric.Gauge, Labels: []string{"database", "user", "state"},
		Help: "Connections of a pool to its server: active (linked to a client), idle, used (idle for long), tested, login.", Source: "SHOW POOLS sv_active, sv_idle, sv_used, sv_tested, sv_login"}
	longest = &metric.Def{Name: "pgbouncer_longest_wait_seconds", Unit: metric.Seconds, Kind: metric.Gauge, Labels: []string{"database", "user"},
		Help: "How long the first client in the line has waited for a server.", Source: "SHOW POOLS maxwait, maxwait_us"}
)

var poolColumns = []column{
	{def: clients, name: "cl_active", label: "active"}, {def: clients, name: "cl_waiting", label: "waiting"},
	{def: servers, name: "sv_active", label: "active"}, {def: servers, name: "sv_idle", label: "idle"}, {def: servers, name: "sv_used", label: "used"},
	{def: servers, name: "sv_tested", label: "tested"}, {def: servers, name: "sv_login", label: "login"},
}

var poolsCollector = &metric.Collector{
	Name: "pool.pools", Doc: "clients and servers of each pool, and how long clients wait", Of: metric.PgBouncer, Fast: true,
	Defs: append(defs(poolColumns), longest),
	Collect: func(ctx context.Context, r host.Reader, out *metric.Out) error {
		t, err := r.Console(ctx, "show pools")
		if err != nil {
			return err
		}
		whole, part := slices.Index(t.Columns, "maxwait"), slices.Index(t.Columns, "maxwait_us")
		if whole >= 0 && part >= 0 { // seconds, and the microseconds of the same wait beyond them
			for i, row := range t.Rows {
				a, err1 := strconv.ParseFloat(row[whole], 64)
				b, err2 := strconv.ParseFloat(row[part], 64)
				if err1 == nil && err2 == nil {
					t.Rows[i][whole] = strconv.FormatFloat(a+b*micro, 'f', 6, 64)
				}
			}
		}
		return give(out, t, "show pools", append(slices.Clone(poolColumns), column{def: longest, name: "maxwait"}), "database", "user")
	},
}

// give adds the columns of a table, by the columns that name each row.
func give(out *metric.Out, t host.Table, command string, cols []column, by ...string) error {
	var keys []int
	for _, k := range by {
		i := slices.Index(t.Columns, k)
		if i < 0 {
			return fmt.Errorf("read what PgBouncer answers to %s: there is no column %s", command, k)
		}
		keys = append(keys, i)
	}
	rows := t.Rows
	if len(rows) > maxPools {
		out.Gap(fmt.Sprintf("%s has %d rows: only %d are looked at", command, len(rows), maxPools), "")
		rows = rows[:maxPools]
	}
	for _, c := range cols {
		at := slices.Index(t.Columns, c.name)
		if at < 0 {
			out.Gap(fmt.Sprintf("this version of PgBouncer does not show %s", c.name), "update PgBouncer", c.def)
			continue
		}
		for _, row := range rows {
			if err := giveCell(out, c, row, at, keys); err != nil {
				return fmt.Errorf("read what PgBouncer answers to %s: %w", command, err)
			}
		}
	}
	return nil
}

func giveCell(out *metric.Out, c column, row []string, at int, keys []int) error {
	labels := make([]string, 0, len(keys)+1)
	for _, k := range keys {
		labels = append(labels, row[k])
	}
	if labels[0] == "pgbouncer" {
		return nil // its own console
	}
	if c.label != "" {
		labels = append(labels, c.label)
	}
	v, err := strconv.ParseFloat(row[at], 64)
	if err != nil {
		return fmt.Errorf("%s holds %.20q, not a figure", c.name, row[at])
	}
	if c.factor != 0 {
		v *= c.factor
	}
	out.Add(c.def, v, labels...)
	return nil
}
