package pg

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"headroom/fact"
	"headroom/unit"
)

// Table is one table's vacuum state.
type Table struct {
	Schema       string            `json:"schema" src:"pg_namespace" doc:"its schema"`
	Name         string            `json:"name" src:"pg_class" doc:"its name"`
	Bytes        int64             `json:"bytes" unit:"bytes" src:"pg_class relpages × block_size" doc:"size of its main file at the last vacuum or analyze"`
	Live         int64             `json:"live" unit:"count" src:"pg_stat_get_live_tuples()" doc:"live rows, estimated"`
	Dead         int64             `json:"dead" unit:"count" src:"pg_stat_get_dead_tuples()" doc:"dead rows, estimated"`
	Changed      int64             `json:"changed" unit:"count" src:"pg_stat_get_mod_since_analyze()" doc:"rows changed since the last analyze"`
	Inserted     fact.Opt[int64]   `json:"inserted" unit:"count" src:"pg_stat_get_ins_since_vacuum()" doc:"rows inserted since the last vacuum"`
	VacuumAt     float64           `json:"vacuum_at" unit:"count" src:"autovacuum_vacuum_threshold + scale factor × rows, reloptions honoured" doc:"dead rows past which autovacuum is due"`
	AnalyzeAt    float64           `json:"analyze_at" unit:"count" src:"autovacuum_analyze_threshold + scale factor × rows, reloptions honoured" doc:"changed rows past which analyze is due"`
	Scale        float64           `json:"scale" unit:"ratio" src:"autovacuum_vacuum_scale_factor, reloptions honoured" doc:"share of the rows that may be dead before autovacuum comes"`
	Auto         bool              `json:"auto" src:"autovacuum_enabled" doc:"autovacuum may work on it"`
	Vacuumed     fact.Opt[float64] `json:"vacuumed" unit:"seconds" src:"pg_stat_get_last_vacuum_time()" doc:"time since the last VACUUM by hand"`
	AutoVacuumed fact.Opt[float64] `json:"auto_vacuumed" unit:"seconds" src:"pg_stat_get_last_autovacuum_time()" doc:"time since the last autovacuum"`
	Analyzed     fact.Opt[float64] `json:"analyzed" unit:"seconds" src:"pg_stat_get_last_analyze_time(), …autoanalyze_time()" doc:"time since the last analyze of either kind"`
	FrozenAge    int64             `json:"frozen_age" unit:"count" src:"age(relfrozenxid)" doc:"transactions since the oldest one in the table"`
	FreezeAt     int64             `json:"freeze_at" unit:"count" src:"autovacuum_freeze_max_age, reloptions honoured" doc:"age at which autovacuum must freeze it"`
	Options      map[string]string `json:"options,omitempty" src:"pg_class reloptions" doc:"the table's own storage parameters"`
}

// Inventory is the tables of the database that we are connected to.
type Inventory struct {
	Database string  `json:"database" src:"current_database()" doc:"the database whose tables these are"`
	Count    int64   `json:"count" unit:"count" src:"pg_class" doc:"how many tables there are"`
	Pages    int64   `json:"bytes" unit:"bytes" src:"pg_class relpages × block_size" doc:"size of all tables' main files"`
	Dead     int64   `json:"dead" unit:"count" src:"pg_stat_get_dead_tuples()" doc:"dead rows in all tables"`
	Tables   []Table `json:"tables" doc:"the largest, those with most dead rows and the oldest: at most 200"`
}

// Tables is the fact "pg.tables".
var Tables = &fact.Source[Inventory]{
	Name: "pg.tables", Doc: "per table of this database: dead rows, when it was last vacuumed and when it will be",
	Read: readTables,
}

func readTables(ctx context.Context, in *fact.In) (Inventory, error) {
	s, err := From(ctx, in)
	if err != nil {
		return Inventory{}, err
	}
	c, err := fact.From(ctx, in, Settings)
	if err != nil {
		return Inventory{}, err
	}
	sql, err := statement("tables", s.Major)
	if err != nil {
		return Inventory{}, err
	}
	out := Inventory{Database: s.Database, Tables: []Table{}}
	err = look(ctx, in, "read the tables", func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, sql)
		if err != nil {
			return err
		}
		var t Table
		var pages, allPages int64
		var reltuples float64
		var vacuumed, auto, analyzed *float64
		var inserted *int64
		var options []string
		_, err = pgx.ForEachRow(rows, []any{&out.Count, &allPages, &out.Dead, &t.Schema, &t.Name, &pages, &reltuples, &t.Live, &t.Dead, &t.Changed, &inserted,
			&vacuumed, &auto, &analyzed, &t.FrozenAge, &options}, func() error {
			row := t
			out.Pages = allPages * s.BlockSize
			row.Bytes = pages * s.BlockSize
			row.Inserted = opt(inserted, "not counted by this version")
			row.Vacuumed, row.AutoVacuumed, row.Analyzed = opt(vacuumed, never), opt(auto, never), opt(analyzed, never)
			row.Options = optionMap(options)
			row.thresholds(c, max(reltuples, 0))
			out.Tables = append(out.Tables, row)
			return nil
		})
		return err
	})
	return out, err
}

const never = "not since the statistics began"

// thresholds works out when autovacuum comes, as the server does: the table's
// own parameters win over the settings.
func (t *Table) thresholds(c Config, rows float64) {
	of := func(name string) float64 {
		if v, ok := t.Options[name]; ok {
			if f, err := strconv.ParseFloat(v, 64); err == nil && f >= 0 {
				return f
			}
		}
		v, _ := c.Number(name)
		return v
	}
	t.Scale = of("autovacuum_vacuum_scale_factor")
	t.VacuumAt = of("autovacuum_vacuum_threshold") + t.Scale*rows
	if most := of("autovacuum_vacuum_max_threshold"); most > 0 { // 18 and newer
		t.VacuumAt = min(t.VacuumAt, most)
	}
	t.AnalyzeAt = of("autovacuum_analyze_threshold") + of("autovacuum_analyze_scale_factor")*rows
	freeze, _ := c.Number("autovacuum_freeze_max_age")
	if own := of("autovacuum_freeze_max_age"); own > 0 {
		freeze = math.Min(freeze, own) // a table can only be stricter
	}
	t.FreezeAt = int64(freeze)
	t.Auto = !isOff(t.Options["autovacuum_enabled"])
}

// isOff reads a boolean of reloptions, which keep what was typed.
func isOff(word string) bool {
	switch strings.ToLower(word) {
	case "off", "of", "false", "fals", "fal", "fa", "f", "no", "n", "0":
		return true
	}
	return false
}

// optionMap splits "name=value" as pg_class.reloptions holds them.
func optionMap(list []string) map[string]string {
	if len(list) == 0 {
		return nil
	}
	out := map[string]string{}
	for _, o := range list {
		name, value, _ := strings.Cut(o, "=")
		out[strings.ToLower(name)] = value
	}
	return out
}

// Due says whether autovacuum should come for the dead rows.
func (t Table) Due() bool { return float64(t.Dead) > t.VacuumAt }

// Quoted is the table's name for SQL and for people: quoted where it must be.
func (t Table) Quoted() string { return Quote(t.Schema) + "." + Quote(t.Name) }

// Database is one database of the server.
type Database struct {
	Name      string            `json:"name" src:"pg_database" doc:"its name"`
	Bytes     fact.Opt[int64]   `json:"bytes" unit:"bytes" src:"pg_database_size()" doc:"its size on disk"`
	FrozenAge int64             `json:"frozen_age" unit:"count" src:"age(datfrozenxid)" doc:"transactions since the oldest one in it; the server stops at 2 billion"`
	Since     fact.Opt[float64] `json:"since" unit:"seconds" src:"pg_stat_database stats_reset" doc:"time over which the counts below were made"`
	Commits   int64             `json:"commits" unit:"count" src:"pg_stat_database xact_commit" doc:"transactions committed"`
	Rollbacks int64             `json:"rollbacks" unit:"count" src:"pg_stat_database xact_rollback" doc:"transactions rolled back"`
	Reads     int64             `json:"reads" unit:"count" src:"pg_stat_database blks_read" doc:"pages not found in shared_buffers"`
	Hits      int64             `json:"hits" unit:"count" src:"pg_stat_database blks_hit" doc:"pages found in shared_buffers"`
	TempFiles int64             `json:"temp_files" unit:"count" src:"pg_stat_database temp_files" doc:"temporary files made by sorts and hashes that did not fit work_mem"`
	TempBytes int64             `json:"temp_bytes" unit:"bytes" src:"pg_stat_database temp_bytes" doc:"bytes written to them"`
	Deadlocks int64             `json:"deadlocks" unit:"count" src:"pg_stat_database deadlocks" doc:"deadlocks"`
}

// Databases is the fact "pg.databases". Sizes take the server a look at every
// file: it gets half a second for all, and the rest stay unknown.
var Databases = &fact.Source[[]Database]{
	Name: "pg.databases", Doc: "per database: size, transaction-id age, transactions, cache hits and temporary files",
	Read: readDatabases,
}

func readDatabases(ctx context.Context, in *fact.In) ([]Database, error) {
	out := []Database{}
	err := look(ctx, in, "read the databases", func(ctx context.Context, tx pgx.Tx) error {
		sql, err := statement("databases", 0)
		if err != nil {
			return err
		}
		rows, err := tx.Query(ctx, sql)
		if err != nil {
			return err
		}
		var d Database
		var since *float64
		_, err = pgx.ForEachRow(rows, []any{&d.Name, &d.FrozenAge, &since, &d.Commits, &d.Rollbacks, &d.Reads, &d.Hits, &d.TempFiles, &d.TempBytes, &d.Deadlocks}, func() error {
			row := d
			row.Since = opt(since, "the server does not tell when counting began")
			row.Bytes = fact.Unknown[int64]("not asked")
			out = append(out, row)
			return nil
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	sizes(ctx, in, out)
	return out, nil
}

// sizeLimit is how long the server may look for all sizes together.
const sizeLimit = 500

func sizes(ctx context.Context, in *fact.In, dbs []Database) {
	left := float64(sizeLimit)
	for i := range dbs {
		if left < 10 {
			dbs[i].Bytes = fact.Unknown[int64](fmt.Sprintf("measuring took over %s, given up", unit.Seconds(sizeLimit/1000.0)))
			continue
		}
		var n int64
		start := in.Now()
		err := look(ctx, in, "measure the database", func(ctx context.Context, tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, fmt.Sprintf("set local statement_timeout = %d", int(left))); err != nil {
				return err
			}
			return tx.QueryRow(ctx, "select pg_catalog.pg_database_size($1::name)", dbs[i].Name).Scan(&n)
		})
		left -= float64(in.Now().Sub(start).Milliseconds())
		if err != nil {
			dbs[i].Bytes = fact.Unknown[int64](err.Error())
			continue
		}
		dbs[i].Bytes = fact.Known(n)
	}
}
