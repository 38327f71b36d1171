package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"headroom/host"
	"headroom/metric"
	"headroom/probe/pg"
)

// sizesBudget is how long sizes of databases may be asked for in one round:
// each looks at every file of one.
const sizesBudget = 3 * time.Second

var databaseSize = &metric.Def{
	Name: "postgres_database_bytes", Help: "Size of the database on disk, of the 50 oldest databases.", Unit: metric.Bytes, Kind: metric.Gauge,
	Labels: []string{"database"}, Source: "pg_database_size()",
}

var sizesCollector = &metric.Collector{
	Name: "postgres.sizes", Doc: "Sizes of databases", Of: metric.Postgres, Every: sizesEvery, Deadline: 15 * time.Second,
	Defs: []*metric.Def{databaseSize}, Collect: collectSizes,
}

type namedDatabase struct {
	OID     uint32
	Name    string
	Allowed bool
}

func collectSizes(ctx context.Context, r host.Reader, out *metric.Out) error {
	var left, closed []string
	var why error
	err := look(ctx, r, func(ctx context.Context, tx pgx.Tx) error {
		list, size, err := databasesOf(ctx, tx)
		if err != nil {
			return err
		}
		begun := time.Now()
		for _, d := range list {
			if !d.Allowed {
				closed = append(closed, d.Name)
				continue
			}
			if why != nil || time.Since(begun) > sizesBudget {
				left = append(left, d.Name)
				continue
			}
			var bytes *float64
			if why = tx.QueryRow(ctx, size, d.OID).Scan(&bytes); why != nil {
				left = append(left, d.Name)
			} else if bytes != nil {
				out.Add(databaseSize, *bytes, d.Name)
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read the sizes of databases: %w", err)
	}
	if len(closed) > 0 {
		out.Gap("we may neither connect to "+some(closed)+" nor read all statistics", "GRANT pg_monitor TO the user that Headroom connects as", databaseSize)
	}
	if len(left) > 0 {
		out.Gap(notMeasured(left, why), "", databaseSize)
	}
	return nil
}

func databasesOf(ctx context.Context, tx pgx.Tx) (list []namedDatabase, size string, err error) {
	names, err := pg.SQL(metricSQL, "sql", "names", pg.Major(tx))
	if err != nil {
		return nil, "", err
	}
	if size, err = pg.SQL(metricSQL, "sql", "size", pg.Major(tx)); err != nil {
		return nil, "", err
	}
	rows, err := tx.Query(ctx, names)
	if err != nil {
		return nil, "", err
	}
	list, err = pgx.CollectRows(rows, pgx.RowToStructByPos[namedDatabase])
	return list, size, err
}

func notMeasured(names []string, err error) string {
	var pe *pgconn.PgError
	switch {
	case err == nil, errors.As(err, &pe) && pe.Code == "57014":
		return "given up: measuring took too long, without " + some(names)
	case errors.As(err, &pe):
		return "the server refuses it: " + pe.Message + ", without " + some(names)
	}
	return err.Error()
}

// some names at most three.
func some(names []string) string {
	if len(names) > 3 {
		return fmt.Sprintf("%s and %d more databases", strings.Join(names[:2], ", "), len(names)-2)
	}
	return strings.Join(names, ", ")
}
