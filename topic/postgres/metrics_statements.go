package postgres

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"headroom/host"
	"headroom/metric"
	"headroom/probe/pg"
)

const (
	// textsEvery is how often texts of statements are read at most: they lie
	// in a file of the server that is read whole.
	textsEvery = 5 * time.Minute
	// textShown is how many characters of a statement go into a label.
	textShown = 200
)

var statementReadings = []reading{
	of("statements", "pg_stat_statements", []string{"database", "queryid"},
		col("postgres_statement_calls_total", "Times that the statement was run.", "calls"),
		col("postgres_statement_seconds_total", "Time that it ran.", "total_exec_time"),
		col("postgres_statement_planning_seconds_total", "Time that planning it took.", "total_plan_time").wants(needPlanning),
		col("postgres_statement_rows_total", "Rows that it returned or changed.", "rows"),
		col("postgres_statement_blocks_hit_total", "Blocks that it found in shared_buffers.", "shared_blks_hit"),
		col("postgres_statement_blocks_read_total", "Blocks that it did not find there.", "shared_blks_read"),
		col("postgres_statement_blocks_dirtied_total", "Blocks that it was the first to change.", "shared_blks_dirtied"),
		col("postgres_statement_blocks_written_total", "Blocks that it had to write itself.", "shared_blks_written"),
		col("postgres_statement_temp_read_bytes_total", "Bytes that it read from temporary files.", "temp_blks_read × block_size"),
		col("postgres_statement_temp_written_bytes_total", "Bytes that it wrote to temporary files.", "temp_blks_written × block_size"),
		col("postgres_statement_read_seconds_total", "Time that it waited for reads of data files.", "shared_blk_read_time, to 16 blk_read_time").wants(needIOTiming),
		col("postgres_statement_write_seconds_total", "Time that it waited for writes of data files.", "shared_blk_write_time, to 16 blk_write_time").wants(needIOTiming),
		col("postgres_statement_wal_bytes_total", "Write-ahead log that it wrote.", "wal_bytes"),
		col("postgres_statements", "Statements that are counted one by one.", "rows").labelled(),
		col("postgres_statements_limit", "Statements that there is room for; past it the least run are forgotten.", "= setting pg_stat_statements.max").labelled(),
	).all(needStats),
	of("evictions", "pg_stat_statements_info", []string{},
		col("postgres_statements_evicted_total", "Times that statements were forgotten to make room: then counts of rare ones are too low.", "dealloc").from(14)),
}

var statementInfo = &metric.Def{
	Name: "postgres_statement_info", Help: "Beginning of the text of a statement, without literals.", Unit: metric.Info, Kind: metric.Gauge,
	Labels: []string{"queryid", "query"}, Source: "pg_stat_statements query",
}

var statementsCollector = statementsOf()

func statementsOf() *metric.Collector {
	c := collector("postgres.statements", "The 50 statements that took most time, over all databases", listsEvery, false, statementReadings...)
	c.Defs = append(c.Defs, statementInfo)
	c.Collect = collectStatements
	return c
}

// home is what is remembered of pg_stat_statements: where it lies, and the
// texts of statements that were read.
type home struct {
	schema  string
	version float64 // of the extension: 1.11 is 11
	loaded  bool
	texts   map[string]string // by queryid
	readAt  time.Time         // when texts were read
}

func collectStatements(ctx context.Context, r host.Reader, out *metric.Out) error {
	h := metric.Kept[home](out)
	if h.schema == "" {
		if err := h.find(ctx, r); err != nil {
			return fmt.Errorf("look for pg_stat_statements: %w", err)
		}
	}
	if because, hint := h.missing(); because != "" {
		h.schema = ""
		out.Gap(because, hint, statementsCollectorDefs()...)
		return nil
	}
	todo := make([]reading, len(statementReadings))
	for i, rd := range statementReadings {
		rd.fill = h.names()
		todo[i] = rd
	}
	if err := collect(ctx, r, out, todo); err != nil {
		return err
	}
	if len(out.Rows) == 0 { // it was dropped or moved, or we may not look
		h.schema = ""
		return nil
	}
	return h.info(ctx, r, out)
}

func statementsCollectorDefs() (defs []*metric.Def) {
	for _, rd := range statementReadings {
		for _, c := range rd.columns {
			defs = append(defs, c.Def)
		}
	}
	return append(defs, statementInfo)
}

func (h *home) find(ctx context.Context, r host.Reader) error {
	return look(ctx, r, func(ctx context.Context, tx pgx.Tx) error {
		sql, err := pg.SQL(metricSQL, "sql", "statements_home", pg.Major(tx))
		if err != nil {
			return err
		}
		var schema, version *string
		if err := tx.QueryRow(ctx, sql).Scan(&schema, &version, &h.loaded); err != nil {
			return err
		}
		h.schema = text(schema)
		minor, _ := strings.CutPrefix(text(version), "1.")
		h.version, _ = strconv.ParseFloat(minor, 64) // an unknown form counts as too old
		return nil
	})
}

// missing says why statements are not counted, "" if they are.
func (h *home) missing() (because, hint string) {
	switch {
	case !h.loaded:
		return "pg_stat_statements is not loaded: the server does not count statements", "headroom plan postgres.extension pg_stat_statements (adds it to shared_preload_libraries, which takes a restart)"
	case h.schema == "":
		return "pg_stat_statements is loaded, but not installed in the database that we are connected to", "CREATE EXTENSION pg_stat_statements"
	case h.version < 8:
		return "the extension pg_stat_statements is older than the server", "ALTER EXTENSION pg_stat_statements UPDATE"
	}
	return "", ""
}

// names fits the statements to the extension's version and place.
func (h *home) names() *strings.Replacer {
	blk := "shared_blk"
	if h.version < 11 {
		blk = "blk"
	}
	return strings.NewReplacer("{schema}", pgx.Identifier{h.schema}.Sanitize(), "{blk}", blk)
}

// info adds the texts of the statements of this round, and reads them where
// some are new.
func (h *home) info(ctx context.Context, r host.Reader, out *metric.Out) error {
	var ids []string
	fresh := false
	calls := statementReadings[0].columns[0].Name
	seen := map[string]bool{}
	for _, row := range out.Rows {
		if id := row.Series.Get("queryid"); row.Series.Name == calls && !seen[id] {
			seen[id] = true
			ids = append(ids, id)
			fresh = fresh || h.texts[id] == ""
		}
	}
	if fresh && (h.readAt.IsZero() || out.At.Sub(h.readAt).Abs() >= textsEvery) {
		if err := h.read(ctx, r); err != nil {
			out.Gap("the texts of statements could not be read: "+err.Error(), "", statementInfo)
		}
		h.readAt = out.At
	}
	for _, id := range ids {
		if t := h.texts[id]; t != "" {
			out.Add(statementInfo, 1, id, t)
		}
	}
	return nil
}

func (h *home) read(ctx context.Context, r host.Reader) error {
	texts := map[string]string{}
	err := look(ctx, r, func(ctx context.Context, tx pgx.Tx) error {
		sql, err := pg.SQL(metricSQL, "sql", "statement_texts", pg.Major(tx))
		if err != nil {
			return err
		}
		rows, err := tx.Query(ctx, h.names().Replace(sql))
		if err != nil {
			return err
		}
		var id, query string
		_, err = pgx.ForEachRow(rows, []any{&id, &query}, func() error {
			texts[id] = Redact(query, textShown)
			return nil
		})
		return err
	})
	if err == nil {
		h.texts = texts
	}
	return err
}
